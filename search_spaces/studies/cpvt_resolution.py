"""Which encodings keep what they know on images of another size?

Source: CPVT 4.3, tables 1 and 2. Cost: smoke 2 minutes, cpu 20 minutes on 2 cores.
Expected: PEG keeps its score on other grids, and the learnable table, resampled, loses most of it.
"""

from search_spaces.claim import AtChance, AtLeast, Better
from search_spaces.study import Ablation, Budget, Published, Score, Study
from trainables.recipe import AdamW, Recipe, RedGreen, ViT

SIDES = (24, 48, 64)
"""Grids of 6 x 6, 12 x 12 and 16 x 16, for 8 x 8."""

study = Study(
    name="cpvt-resolution",
    question="Which encodings keep what they know on images of another size?",
    family="cpvt",
    paper="Chu et al. 2023, Conditional Positional Encodings for Vision Transformers, 4.3",
    cost="smoke 2 minutes, cpu 20 minutes on 2 cores",
    expected="PEG keeps its score on other grids, the learnable table, resampled, loses most of it",
    base=Recipe(
        data=RedGreen(task="direction"),
        model=ViT(depth=2, read_out="gap"),
        optimiser=AdamW(epochs=20),
        sizes=SIDES,
    ),
    plan=Ablation(
        arms={
            "none": {},
            "learnable": {"encoding.kind": "learnable"},
            "sinusoidal": {"encoding.kind": "sinusoidal"},
            "fourier": {"encoding.kind": "fourier", "encoding.gamma": 2.5},
            "PEG": {"encoding.kind": "peg", "encoding.places": [0]},
        },
        baseline="learnable",
    ),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(
            values={"data.train": 2000, "optimiser.epochs": 9, "optimiser.lr": 0.003, "optimiser.batch": 50}, seeds=2
        ),
        "cpu": Budget(),
        "paper": Budget(values={"optimiser.epochs": 40}, seeds=10),
    },
    published=(
        Published("none", 0.682, None, "table 1, DeiT-tiny at 224, where it is trained"),
        Published("learnable", 0.722, None, "table 1, at 224; 0.656 at 160, 0.712 at 384, 0.688 at 448, 0.659 at 512"),
        Published("sinusoidal", 0.723, None, "table 1, at 224; 0.652 at 160, 0.708 at 384, 0.682 at 448, 0.651 at 512"),
        Published("PEG", 0.724, None, "table 1, at 224; 0.668 at 160, 0.732 at 384, 0.718 at 448, 0.703 at 512"),
    ),
    claims=(
        AtChance("none", 0.03),
        AtLeast("PEG", 0.95, "table 1", side=48),
        Better("PEG", "learnable", 0.0, "table 1", side=24),
        Better("PEG", "learnable", 0.0, "table 1", side=48),
        Better("PEG", "learnable", 0.0, "table 1", side=64),
        Better("PEG", "sinusoidal", 0.0, "table 1", side=64),
    ),
    gaps=(
        "DeiT-tiny on ImageNet there, with the class token; two blocks on red-green images here, averaged: its scores "
        "and ours share no scale",
        "its grids are 10 to 32 patches a side for 14, ours 6 to 16 for 8",
        "relative encodings, of which it shows one size more, are left out",
    ),
)
