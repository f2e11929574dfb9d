"""Does a PEG in each stage help pyramids and windows?

Source: CPVT 4.6, table 13 (PVT), B.5 and figure 4 (Swin). Cost: smoke 1 minute, cpu 8 on 2 cores.
Expected: a PEG beats PVT's tables and helps Swin; PVT v2's convolutions leave it little to add.
"""

from typing import Any

from search_spaces.claim import Better
from search_spaces.studies._smoke import ARMS_GAP
from search_spaces.study import Ablation, Budget, Published, Score, Study
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

study = Study(
    name="peg-stages",
    question="Does a PEG in each stage help pyramids and windows?",
    family="cpvt",
    paper="Chu et al. 2021, Conditional Positional Encodings for Vision Transformers (arXiv:2102.10882), 4.6, table 13 "
    "and B.5",
    cost="smoke 1 minute, cpu 8 on 2 cores",
    expected="a PEG beats PVT's tables and helps Swin; PVT v2's convolutions leave it little to add",
    base=Recipe(data=RedGreen(task="absolute")),
    plan=Ablation(
        axes={"backbone": BACKBONES, "encoding": ENCODINGS},
        without=({"backbone": "swin", "encoding": "table"}, {"backbone": "pvt v2", "encoding": "table"}),
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
            values={"data.train_size": 2000, "optimizer.epochs": 10, "optimizer.lr": 0.002, "optimizer.batch_size": 50}
        ),
    },
    published=(
        Published("pvt, table", 0.759, None, "table 13, PVT-tiny with GAP"),
        Published("pvt, peg", 0.781, None, "table 13, PVT-tiny with PEG and GAP"),
        Published("swin, none", 0.8110, None, "B.5 and figure 4, Swin-tiny"),
        Published("swin, peg", 0.8225, None, "B.5 and figure 4, Swin-tiny with PEG"),
    ),
    claims=(
        Better("pvt, peg", "pvt, table", source="table 13"),
        Better("swin, peg", "swin, none", source="4.6 and B.5: 82.25 against 81.10"),
    ),
    gaps=(
        "ImageNet there, red-green images here: only the differences of two arms of one backbone can be compared",
        "PVT v1 is Twins-PCPVT without its PEG, read out at the mean of its patches; timm has no PVT v1",
        "two stages of two blocks; the papers' sizes: trainables/backbones/",
        "Swin keeps its relative biases, PVT v2 the zero padding of its convolutions: `none` knows positions there",
        "table 13's other rows: PVT-tiny without GAP 75.0, with PEG 77.3; PVT-small 79.8, with PEG and GAP 81.2; "
        "PVT-medium 81.2, with both 82.7; table 15 has Swin-tiny at 81.3, with both 82.3; COCO and ADE20K are left out",
        "no number published for PVT v2, nor for PVT without any encoding",
    ),
)
