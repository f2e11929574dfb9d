"""Does a PEG in each stage help pyramids and windows?

Source: CPVT table 13. Cost: smoke 1 minute, cpu 8 on 2 cores.
Expected: a PEG beats PVT's tables and helps Swin; PVT v2's convolutions leave it little to add.
"""

from typing import Any

from search_spaces.claim import Better
from search_spaces.study import Ablation, Budget, Published, Score, Study
from trainables.data import RedGreen
from trainables.recipe import Recipe

PVT: dict[str, Any] = {"model.kind": "twins", "model.peg": False}
PEG: dict[str, Any] = {"encoding.kind": "peg", "encoding.places": [0]}

study = Study(
    name="peg-stages",
    question="Does a PEG in each stage help pyramids and windows?",
    family="cpvt",
    paper="Chu et al. 2021, Conditional Positional Encodings for Vision Transformers (arXiv:2102.10882), table 13",
    cost="smoke 1 minute, cpu 8 on 2 cores",
    expected="a PEG beats PVT's tables and helps Swin; PVT v2's convolutions leave it little to add",
    base=Recipe(data=RedGreen(task="absolute")),
    plan=Ablation(
        arms={
            "pvt": {**PVT, "encoding.kind": "learnable", "encoding.std": 0.5},
            "pvt, none": PVT,
            "pvt, peg": {**PVT, **PEG},
            "swin": {"model.kind": "swin"},
            "swin, peg": {"model.kind": "swin", **PEG},
            "pvt v2": {"model.kind": "pvt_v2"},
            "pvt v2, peg": {"model.kind": "pvt_v2", **PEG},
        },
        baseline="pvt",
    ),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(
            values={"data.train_size": 600, "optimizer.epochs": 3, "optimizer.lr": 0.002, "optimizer.batch_size": 30},
            seeds=2,
            gap="smoke trains too little, on two seeds: it shows that every arm runs, not what it scores",
        ),
        "cpu": Budget(
            values={"data.train_size": 2000, "optimizer.epochs": 10, "optimizer.lr": 0.002, "optimizer.batch_size": 50}
        ),
    },
    published=(
        Published("pvt", 0.759, None, "table 13, PVT-tiny with GAP"),
        Published("pvt, peg", 0.781, None, "table 13, PVT-tiny with PEG and GAP"),
        Published("swin", 0.8110, None, "table 13, Swin-tiny"),
        Published("swin, peg", 0.8225, None, "table 13, Swin-tiny"),
    ),
    claims=(
        Better("pvt, peg", "pvt", source="table 13"),
        Better("swin, peg", "swin", source="table 13"),
    ),
    gaps=(
        "ImageNet there, red-green images here: only the differences of two arms of one backbone can be compared",
        "PVT v1 is Twins-PCPVT without its PEG, read out at the mean of its patches; timm has no PVT v1",
        "two stages of two blocks; the papers' sizes: trainables/backbones/",
        "Swin keeps its relative biases, PVT v2 the zero padding of its convolutions: `none` knows positions there",
        "COCO and ADE20K are left out",
    ),
)
