"""Does a table beside the content serve other backbones as well as one added to it?

Source: the concat paper's table 1. Cost: smoke 2 minutes, cpu 8 on 2 cores.
Expected: alike; the paper's gains (0 to 0.3 points of ImageNet) are far below what a few seeds can tell apart.
"""

from typing import Any

from search_spaces.claim import Equivalent
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
"""Each backbone two blocks deep; where its own table stood, the learned one is added or concatenated."""


def arms() -> dict[str, dict[str, Any]]:
    """Every backbone twice: `cait` adds, `cait, concat` uses half of its channels for position."""
    both: dict[str, dict[str, Any]] = {}
    for name, values in BACKBONES.items():
        both[name] = values
        both[f"{name}, concat"] = {**values, "encoding.injection.kind": "concat"}
    return both


study = Study(
    name="concat-backbones",
    question="Does a table beside the content serve other backbones as well as one added to it?",
    family="concat",
    paper="Zhou et al. 2024, Rethinking Position Embedding Methods in the Transformer Architecture "
    "(doi:10.1007/s11063-024-11539-7), table 1",
    cost="smoke 2 minutes, cpu 8 on 2 cores",
    expected="alike; the paper's gains are far below what a few seeds can tell apart",
    base=Recipe(data=RedGreen(task="absolute", image_size=16, train_size=2000), encoding=Learnable(std=0.5)),
    plan=Ablation(arms=arms(), baseline="vit"),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(
            values={"data.train_size": 600, "optimizer.epochs": 5, "optimizer.lr": 0.002, "optimizer.batch_size": 30},
            seeds=2,
            gap="smoke trains too little, on two seeds: it shows that every arm runs, not what it scores",
        ),
        "cpu": Budget(
            values={"data.train_size": 2000, "optimizer.epochs": 10, "optimizer.lr": 0.002, "optimizer.batch_size": 50}
        ),
    },
    published=(
        Published("vit", 0.798, None, "table 1, DeiT-S"),
        Published("vit, concat", 0.800, None, "table 1, DeiT-S"),
        Published("cait", 0.791, None, "table 1, XXS36"),
        Published("cait, concat", 0.793, None, "table 1, XXS36"),
        Published("convit", 0.813, None, "table 1, S"),
        Published("convit, concat", 0.816, None, "table 1, S"),
        Published("volo", 0.842, None, "table 1, D1"),
        Published("volo, concat", 0.842, None, "table 1, D1"),
        Published("tnt", 0.829, None, "table 1, B"),
        Published("tnt, concat", 0.828, None, "table 1, B"),
    ),
    claims=tuple(Equivalent(f"{name}, concat", name, 0.05, "table 1") for name in BACKBONES),
    gaps=(
        "ImageNet there, red-green images here: only the differences of two arms of one backbone can be compared",
        "grids of 4 x 4 patches (VOLO: 2 x 2) and two blocks; the papers' sizes: trainables/backbones/",
        "tables start with deviation 0.5 here, 0.02 there, where they have 300 epochs to grow",
        "VOLO without token labelling; the paper also has PVT and LocalViT, which timm lacks",
    ),
)
