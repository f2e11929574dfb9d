"""Is a concatenated position table as good as an added one?

Source: the concat paper 4.1, table 1. Cost: smoke 1 min, cpu 27 min, images 55 min on 2 cores; paper 72 GPU-hours,
paper-large 200 GPU-hours.
Expected: alike; the paper's differences (-0.1 to 0.5 points of ImageNet) are far below what a few seeds can tell apart.
"""

from search_spaces.claim import Better, Equivalent
from search_spaces.studies._concat import (
    BACKBONES,
    LARGE_SIZES,
    PAPER,
    PYRAMID_GAP,
    SMALL_GAP,
    SMALL_SIZES,
    TABLE,
    WHOLE,
)
from search_spaces.studies._imagenet import CROP_GAP, STAND_IN_GAP
from search_spaces.studies._images import IMAGES
from search_spaces.studies._smoke import ARMS_GAP
from search_spaces.study import Ablation, Budget, Published, Score, Study
from trainables.data import RedGreen
from trainables.encodings import Learnable
from trainables.recipe import Recipe

SMALLER = {path: value for path, value in IMAGES.items() if path != "model.depth"}
"""The training on a part of CIFAR-10; the arms say how deep a backbone is."""

TABLES = {**TABLE, "none": {"encoding.kind": "none"}}
NEEDED = "ours: if the table does nothing, the other claims mean nothing"

study = Study(
    name="concat-vs-add",
    question="Is a concatenated position table as good as an added one?",
    family="concat",
    paper=f"{PAPER}, 4.1 and table 1",
    minutes={"smoke": 1, "cpu": 27, "images": 55},
    gpu_hours={"paper": 72, "paper-large": 200},
    expected="alike; the paper's differences are far below what a few seeds can tell apart",
    found={
        "images": "3 seeds, test images: concatenated is above added in all five, and three seeds suffice in TNT "
        "alone to call them equal within 0.03: +0.0039 (98.3 % interval -0.0145 to 0.0224). Inconclusive (99.4 % "
        "intervals): ViT +0.0228 (-0.0173 to 0.0628; about 9 seeds), CaiT +0.0128 (-0.0449 to 0.0705; 6), ConViT "
        "+0.0074 (-0.1634 to 0.1782; 14), VOLO +0.0004 (-0.0826 to 0.0834; 5). The table itself helps the ViT "
        "(+0.0405 above none, 98.8 % interval 0.0326 to 0.0485) and TNT (+0.0261; 0.0094 to 0.0427), probably CaiT "
        "(+0.0275; -0.0077 to 0.0628; 4 seeds), and does nothing in VOLO (-0.0042), so there both ways can hardly "
        "differ.",
    },
    base=Recipe(data=RedGreen(task="absolute", image_size=16, train_size=2000), encoding=Learnable(std=0.5)),
    plan=Ablation(axes={"backbone": BACKBONES, "table": TABLES}, baseline="added"),
    score=Score("val/accuracy"),
    seeds=10,
    budgets={
        "smoke": Budget(
            values={"data.train_size": 600, "optimizer.epochs": 5, "optimizer.lr": 0.002, "optimizer.batch_size": 30},
            seeds=2,
            gap=ARMS_GAP,
        ),
        "cpu": Budget(
            values={"data.train_size": 2000, "optimizer.epochs": 10, "optimizer.lr": 0.002, "optimizer.batch_size": 50}
        ),
        "images": Budget({**SMALLER, "encoding.std": 0.02}, seeds=3),
        "paper": Budget(WHOLE, arms=SMALL_SIZES, seeds=1, gap=STAND_IN_GAP),
        "paper-large": Budget(
            {**WHOLE, **LARGE_SIZES["vit"]},
            arms=LARGE_SIZES,
            seeds=1,
            gap=f"the published numbers beside the scores are those of the small models; {STAND_IN_GAP}",
        ),
    },
    published=(
        Published("vit, added", 0.798, None, "table 1, DeiT-S on ImageNet"),
        Published("vit, concatenated", 0.800, None, "table 1, DeiT-S on ImageNet"),
        Published("cait, added", 0.791, None, "table 1, CaiT-XXS36 on ImageNet"),
        Published("cait, concatenated", 0.793, None, "table 1, CaiT-XXS36 on ImageNet"),
        Published("convit, added", 0.813, None, "table 1, ConViT-S on ImageNet"),
        Published("convit, concatenated", 0.816, None, "table 1, ConViT-S on ImageNet"),
        Published("volo, added", 0.842, None, "table 1, VOLO-D1 on ImageNet"),
        Published("volo, concatenated", 0.842, None, "table 1, VOLO-D1 on ImageNet"),
        Published("tnt, added", 0.815, None, "table 1, TNT-S on ImageNet"),
        Published("tnt, concatenated", 0.814, None, "table 1, TNT-S on ImageNet"),
    ),
    claims=(
        Equivalent("vit, concatenated", "vit, added", 0.03, "table 1: 80.0 against 79.8"),
        Equivalent("cait, concatenated", "cait, added", 0.03, "table 1: 79.3 against 79.1"),
        Equivalent("convit, concatenated", "convit, added", 0.03, "table 1: 81.6 against 81.3"),
        Equivalent("volo, concatenated", "volo, added", 0.03, "table 1: 84.2 against 84.2"),
        Equivalent("tnt, concatenated", "tnt, added", 0.03, "table 1: 81.4 against 81.5"),
        *(Better(f"{name}, added", f"{name}, none", 0.0, NEEDED) for name in ("vit", "cait", "tnt")),
    ),
    gaps=(
        "300 epochs of ImageNet there; here red-green images, or at the budget `images` 5,000 images of CIFAR-10 "
        "without augmentation: only the differences of two arms of one backbone can be compared",
        "two blocks, on grids of 4 x 4 patches (VOLO: 2 x 2), at the budget `images` 8 x 8 (VOLO: 4 x 4)",
        CROP_GAP,
        SMALL_GAP,
        "the paper has no arms `none`: they are ours. ConViT and VOLO have positions of their own (gated attention, an "
        "outlooker), and solve the task of the budget `cpu` without a table; there all tables score near 1, so the "
        "equivalences only say that neither way breaks",
        "tables start with deviation 0.5 at smoke and cpu, 0.02 elsewhere, as DeiT has it; the paper does not say",
        f"VOLO without token labelling; {PYRAMID_GAP}",
        "table 1's larger models (added, concatenated), of which the budget paper-large trains those that we have: "
        "DeiT-B 81.8, 82.2; CaiT-XS36 82.6, 82.6; ConViT-B 82.2, 82.2; VOLO-D2 85.2, 85.3; TNT-B 82.9, 82.8; and those "
        "that we lack: PVT-S 79.8, 80.3; PVT-M 81.2, 81.5; LocalViT-PVT 78.2, 78.5",
        "stochastic depth of 0.1 in the ViT alone: our other backbones have none",
        "4.1 names SGD's momentum of 0.9 beside AdamW, +0.3 for CaiT-XS46 and 0.2 GB more memory for CaiT-XS36; table "
        "1 has no such model, no gain for CaiT-XS36, and 0.8 GB less",
        "table 1's counts of parameters do not fit half a patch embedding: DeiT-S falls from 22.0 to 21.6 M (twice the "
        "saving), CaiT-XXS36 rises from 17.2 to 17.3 M",
        "FLOPs, memory and throughput of table 1 are left out: they are of V100 GPUs",
    ),
)
