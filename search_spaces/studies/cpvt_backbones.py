"""Does a PEG in each stage help pyramids and windows, with a class token and with averaged patches?

Source: CPVT 4.6, table 13 (PVT), B.5 and figure 4 (Swin), D.4, table 15. Cost: smoke 1 min, cpu 8 min, images 50 min
(an estimate) on 2 cores; paper 23 GPU-hours, paper-small 37 GPU-hours, paper-medium 59 GPU-hours.
Expected: a PEG beats PVT's tables, with both read-outs, and helps Swin; PVT v2's convolutions leave it little to add.
On red-green images all arms with a PEG or a table come near 1, so only photographs can tell the read-outs apart.
"""

from typing import Any

from search_spaces.claim import Better
from search_spaces.presets import DEIT
from search_spaces.studies._cpvt import PAPER
from search_spaces.studies._imagenet import CROP_GAP, STAND_IN_GAP
from search_spaces.studies._images import IMAGES
from search_spaces.studies._smoke import ARMS_GAP
from search_spaces.study import Ablation, Budget, Published, Score, Study
from trainables.backbones.pvt_v2 import PVT_V2_B1, PVT_V2_B2, PVT_V2_B3
from trainables.backbones.swin import SWIN_TINY
from trainables.backbones.twins import PVT_MEDIUM, PVT_SMALL, PVT_TINY, Twins
from trainables.data import RedGreen
from trainables.recipe import Recipe

BACKBONES: dict[str, dict[str, Any]] = {
    "pvt": {"model.kind": "twins", "model.peg": False},
    "swin": {"model.kind": "swin"},
    "pvt v2": {"model.kind": "pvt_v2"},
}
ENCODINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "peg": {"encoding.kind": "peg", "encoding.places": [0]},
    "table": {"encoding.kind": "learnable", "encoding.std": 0.5},
}
"""What is added to what a backbone has of its own: nothing, a PEG in each stage, or PVT's learned tables."""
READ_OUTS: dict[str, dict[str, Any]] = {"GAP": {}, "class token": {"model.pool": "token"}}


def whole(pvt: Twins, pvt_v2: Any, gap: str = "") -> Budget:
    """Returns the budget of PVT of a published size, on images of 224 pixels, trained as DeiT is."""
    images = {"data": {"kind": "tiny_imagenet", "image_size": 224}}
    training = {path: value for path, value in DEIT.items() if path != "model.drop_path"}
    models = {"pvt": pvt.put({"pool": "avg"}), "swin": SWIN_TINY, "pvt v2": pvt_v2}
    arms = {name: {"model": model.plain()} for name, model in models.items()}
    arms["table"] = {"encoding.kind": "learnable"}
    return Budget({**images, **training, **arms["pvt"]}, arms=arms, seeds=1, gap=f"{gap}{STAND_IN_GAP}")


study = Study(
    name="cpvt-backbones",
    question="Does a PEG in each stage help pyramids and windows, with a class token and with averaged patches?",
    family="cpvt",
    paper=f"{PAPER}, 4.6, table 13 and B.5",
    minutes={"smoke": 1, "cpu": 8, "images": 50},
    not_run=("images",),
    gpu_hours={"paper": 23, "paper-small": 37, "paper-medium": 59},
    expected="a PEG beats PVT's tables and helps Swin; PVT v2's convolutions leave it little to add",
    found={
        "cpu": "5 seeds, test images: “pvt, none, GAP” 0.4970, “pvt, none, class token” 0.4928, “pvt, peg, GAP” "
        "1.0000, “pvt, peg, class token” 1.0000, “pvt, table, GAP” 1.0000, “pvt, table, class token” 1.0000, “swin, "
        "none, GAP” 0.7190, “swin, peg, GAP” 1.0000, “pvt v2, none, GAP” 0.9998, “pvt v2, peg, GAP” 1.0000. "
        "Inconclusive: “pvt, peg, class token” is better than “pvt, table, class token” (+0.0000; 98 %, -0.0007 to "
        "0.0007; more than 1,000 seeds would decide it); “pvt, peg, GAP” is better than “pvt, table, GAP” (+0.0000; "
        "98 %, -0.0007 to 0.0007; more than 1,000 seeds would decide it); “pvt, peg, GAP” is better than “pvt, peg, "
        "class token” (+0.0000; 98 %, -0.0007 to 0.0007; more than 1,000 seeds would decide it); “pvt, table, GAP” is "
        "better than “pvt, table, class token” (+0.0000; 98 %, -0.0007 to 0.0007; more than 1,000 seeds would decide "
        "it); “swin, peg, GAP” is better than “swin, none, GAP” (+0.2810; 98 %, -0.0632 to 0.6252; about 9 seeds "
        "would decide it).",
    },
    base=Recipe(data=RedGreen(task="absolute")),
    plan=Ablation(
        axes={"backbone": BACKBONES, "encoding": ENCODINGS, "read-out": READ_OUTS},
        without=(
            {"backbone": "swin", "encoding": "table"},
            {"backbone": "pvt v2", "encoding": "table"},
            {"backbone": "swin", "read-out": "class token"},
            {"backbone": "pvt v2", "read-out": "class token"},
        ),
        baseline="none",
    ),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(
            values={"data.train_size": 600, "optimizer.epochs": 3, "optimizer.lr": 0.002, "optimizer.batch_size": 30},
            seeds=2,
            gap=ARMS_GAP,
        ),
        "cpu": Budget(
            values={"data.train_size": 2000, "optimizer.epochs": 10, "optimizer.lr": 0.001, "optimizer.batch_size": 50},
        ),
        "images": Budget({path: value for path, value in IMAGES.items() if path != "model.depth"}, seeds=3),
        "paper": whole(PVT_TINY, PVT_V2_B1),
        "paper-small": whole(PVT_SMALL, PVT_V2_B2, "the published numbers of PVT beside the scores are PVT-tiny's; "),
        "paper-medium": whole(PVT_MEDIUM, PVT_V2_B3, "the published numbers of PVT beside the scores are PVT-tiny's; "),
    },
    published=(
        Published("pvt, table, class token", 0.750, None, "table 13, PVT-tiny on ImageNet"),
        Published("pvt, peg, class token", 0.773, None, "table 13, PVT-tiny with PEG on ImageNet"),
        Published("pvt, table, GAP", 0.759, None, "table 13, PVT-tiny with GAP on ImageNet"),
        Published("pvt, peg, GAP", 0.781, None, "table 13, PVT-tiny with PEG and GAP on ImageNet"),
        Published("swin, none, GAP", 0.8110, None, "B.5 and figure 4, Swin-tiny on ImageNet"),
        Published("swin, peg, GAP", 0.8225, None, "B.5 and figure 4, Swin-tiny with PEG on ImageNet"),
    ),
    claims=(
        Better("pvt, peg, class token", "pvt, table, class token", source="table 13: 77.3 against 75.0"),
        Better("pvt, peg, GAP", "pvt, table, GAP", source="table 13: 78.1 against 75.9"),
        Better("pvt, peg, GAP", "pvt, peg, class token", source="table 13: 78.1 against 77.3"),
        Better("pvt, table, GAP", "pvt, table, class token", source="table 13: 75.9 against 75.0"),
        Better("swin, peg, GAP", "swin, none, GAP", source="figure 4 and B.5: 82.25 against 81.10"),
    ),
    gaps=(
        "ImageNet there; red-green images or 5,000 images of CIFAR-10, without augmentation, here: only the "
        "differences of two arms of one backbone can be compared",
        "PVT v1 is Twins-PCPVT without its PEG; its class token stands before the patches of the last stage; timm has "
        "no PVT v1. The table has 13, 25 and 44 M weights for tiny, small and medium, and so have ours",
        "two stages of two blocks at smoke, cpu and images; stochastic depth is left out at paper",
        "at paper all backbones are trained as DeiT is; 4.6 has the same settings for both of a pair, and names none",
        CROP_GAP,
        "Swin keeps its relative biases, also with a PEG (4.6 does not say whether it does). PVT v2 keeps the zero "
        "padding of its convolutions. So their arm `none` knows positions",
        "table 13's other rows: PVT-small 79.8, with PEG and GAP 81.2; PVT-medium 81.2, with both 82.7 (budgets "
        "paper-small and paper-medium); table 15 has Swin-tiny at 81.3, with both 82.3; Swin has no class token",
        "ADE20K and COCO of table 13 and B.6 are left out: PEG + GAP gains 3.1, 4.5 and 3.3 points of mIoU for the "
        "three sizes, 2.0, 2.6 and 2.4 of mAP in the short schedule",
        "4.6 names a gain of 3.1 for PVT-tiny, that of PEG and GAP over neither (75.0 to 78.1)",
        "no number published for PVT v2, nor for PVT without any encoding",
    ),
)
