"""Does a table beside the content serve other backbones as well as one added to it?

Source: the concat paper's table 1. Cost: smoke 2 minutes, cpu 8 on 2 cores.
Expected: alike; the paper's differences (-0.1 to 0.3 points of ImageNet) are far below what a few seeds can tell apart.
"""

from typing import Any

from search_spaces.claim import Equivalent
from search_spaces.studies._smoke import ARMS_GAP
from search_spaces.study import Ablation, Budget, Published, Score, Study
from trainables.data import RedGreen
from trainables.encodings import Learnable
from trainables.recipe import Recipe

BACKBONES: dict[str, dict[str, Any]] = {
    "vit": {"model.depth": 2},
    "cait": {"model.kind": "cait"},
    "convit": {"model.kind": "convit"},
    "volo": {"model.kind": "volo"},
    "tnt": {"model.kind": "tnt"},
}
"""Each backbone two blocks deep; where its own table stood, the learned one stands."""

study = Study(
    name="concat-backbones",
    question="Does a table beside the content serve other backbones as well as one added to it?",
    family="concat",
    paper="Zhou et al. 2024, Rethinking Position Embedding Methods in the Transformer Architecture "
    "(doi:10.1007/s11063-024-11539-7), table 1",
    cost="smoke 2 minutes, cpu 8 on 2 cores",
    expected="alike; the paper's differences are far below what a few seeds can tell apart",
    base=Recipe(data=RedGreen(task="absolute", image_size=16, train_size=2000), encoding=Learnable(std=0.5)),
    plan=Ablation(
        axes={"backbone": BACKBONES, "table": {"added": {}, "concatenated": {"encoding.injection.kind": "concat"}}},
        baseline="added",
    ),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(
            values={"data.train_size": 600, "optimizer.epochs": 5, "optimizer.lr": 0.002, "optimizer.batch_size": 30},
            seeds=2,
            gap=ARMS_GAP,
        ),
        "cpu": Budget(
            values={"data.train_size": 2000, "optimizer.epochs": 10, "optimizer.lr": 0.002, "optimizer.batch_size": 50}
        ),
    },
    published=(
        Published("vit, added", 0.798, None, "table 1, DeiT-S"),
        Published("vit, concatenated", 0.800, None, "table 1, DeiT-S"),
        Published("cait, added", 0.791, None, "table 1, CaiT-XXS36"),
        Published("cait, concatenated", 0.793, None, "table 1, CaiT-XXS36"),
        Published("convit, added", 0.813, None, "table 1, ConViT-S"),
        Published("convit, concatenated", 0.816, None, "table 1, ConViT-S"),
        Published("volo, added", 0.842, None, "table 1, VOLO-D1"),
        Published("volo, concatenated", 0.842, None, "table 1, VOLO-D1"),
        Published("tnt, added", 0.829, None, "table 1, TNT-B"),
        Published("tnt, concatenated", 0.828, None, "table 1, TNT-B"),
    ),
    claims=tuple(Equivalent(f"{name}, concatenated", f"{name}, added", 0.05, "table 1") for name in BACKBONES),
    gaps=(
        "ImageNet there, red-green images here: only the differences of two arms of one backbone can be compared",
        "grids of 4 x 4 patches (VOLO: 2 x 2) and two blocks; the papers' sizes: trainables/backbones/",
        "tables start with deviation 0.5 here, 0.02 there, where they have 300 epochs to grow",
        "VOLO without token labelling; the paper also has PVT and LocalViT, which timm lacks",
        "table 1's other rows (added, concatenated): DeiT-B 81.8, 82.2; CaiT-XS36 82.6, 82.6; ConViT-B 82.2, 82.2; "
        "VOLO-D2 85.2, 85.3; TNT-S 81.5, 81.4; PVT-S 79.8, 80.3; PVT-M 81.2, 81.5; LocalViT-PVT 78.2, 78.5",
        "table 3, these models fine-tuned on five small sets (differences of -0.2 to 0.3 points), is left out",
        "its counts of weights do not fit half the patch embedding: DeiT-S 22.0 to 21.6 M (twice the saving), "
        "CaiT-XXS36 17.2 to 17.3 M",
    ),
)
