"""Which encodings tell left from right?

Source: thesis 4.1, table 1, direction. Cost: smoke 1 min, cpu 28 min on 2 cores; paper 2.7 GPU-hours.
Expected: every code of positions solves it under both read-outs, and `none` is at chance. `relative` solves it where
patches are averaged, and is at chance with the class token, so its claim is refuted there: a gap says why.
"""

from search_spaces.claim import AtChance, AtLeast, Better
from search_spaces.studies._thesis import AXES, BUDGETS, GAPS, PAPER, RELATIVE_GAP
from search_spaces.study import Ablation, Published, Score, Study
from trainables.data import RedGreen
from trainables.recipe import Recipe

study = Study(
    name="direction",
    question="Which encodings tell left from right?",
    family="thesis",
    paper=f"{PAPER}, 4.1",
    minutes={"smoke": 1, "cpu": 28},
    gpu_hours={"paper": 2.7},
    expected="every code of positions solves it under both read-outs; relative only where patches are averaged; none "
    "is at chance",
    base=Recipe(data=RedGreen(task="direction", data_seed=1)),
    plan=Ablation(axes=AXES, baseline="none"),
    score=Score("val/accuracy"),
    budgets=BUDGETS,
    published=(
        Published("none, token", 0.5272, 0.0108, "table 1", same_data=True),
        Published("absolute, token", 0.9943, 0.0036, "table 1", same_data=True),
        Published("sinusoidal, token", 0.9981, 0.0016, "table 1", same_data=True),
        Published("fourier, token", 0.9964, 0.0032, "table 1", same_data=True),
        Published("relative, token", 0.9992, 0.0006, "table 1", same_data=True),
        Published("relative, mean", 0.9992, 0.0006, "table 1", same_data=True),
    ),
    claims=(
        AtChance("none, token", 0.03, "table 1"),
        AtChance("none, mean", 0.03, "table 1"),
        AtLeast("absolute, token", 0.99, "table 1"),
        AtLeast("absolute, mean", 0.99, "table 1"),
        AtLeast("sinusoidal, token", 0.99, "table 1"),
        AtLeast("sinusoidal, mean", 0.99, "table 1"),
        AtLeast("learnable sinusoidal, token", 0.99, "ours: 5.2 starts it equal to sinusoidal"),
        AtLeast("learnable sinusoidal, mean", 0.99, "ours: 5.2 starts it equal to sinusoidal"),
        AtLeast("fourier, token", 0.99, "table 1"),
        AtLeast("fourier, mean", 0.99, "table 1"),
        AtLeast("relative, token", 0.99, "table 1"),
        AtLeast("relative, mean", 0.99, "table 1"),
        Better("absolute, token", "none, token", 0.0, "table 1"),
    ),
    gaps=(*GAPS, RELATIVE_GAP),
)
