"""Which encodings measure the offset between two squares?

Source: thesis 4.1, table 1, distance. Cost: smoke 1 min, cpu 28 min on 2 cores; paper 2.7 GPU-hours.
Expected: every code of positions reaches an R^2 near 1 under both read-outs, higher than the thesis' 0.92 to 0.96;
`none` is at 0. `relative` does so where patches are averaged, and is at 0 with the class token.
"""

from search_spaces.claim import AtChance, AtLeast, Better
from search_spaces.studies._thesis import AXES, BUDGETS, GAPS, PAPER, RELATIVE_GAP
from search_spaces.study import Ablation, Published, Score, Study
from trainables.data import RedGreen
from trainables.recipe import Recipe

study = Study(
    name="distance",
    question="Which encodings measure the offset between two squares?",
    family="thesis",
    paper=f"{PAPER}, 4.1",
    minutes={"smoke": 1, "cpu": 28},
    gpu_hours={"paper": 2.7},
    expected="every code of positions reaches an R^2 near 1 under both read-outs, relative only where patches are "
    "averaged; none is at 0",
    base=Recipe(data=RedGreen(task="distance", data_seed=1)),
    plan=Ablation(axes=AXES, baseline="none"),
    score=Score("val/r2"),
    budgets=BUDGETS,
    published=(
        Published("none, token", -0.01, 0.01, "table 1", same_data=True),
        Published("absolute, token", 0.92, 0.06, "table 1", same_data=True),
        Published("sinusoidal, token", 0.96, 0.01, "table 1", same_data=True),
        Published("fourier, token", 0.94, 0.03, "table 1", same_data=True),
        Published("relative, token", 0.84, 0.04, "table 1", same_data=True),
        Published("relative, mean", 0.84, 0.04, "table 1", same_data=True),
    ),
    claims=(
        AtChance("none, token", 0.03, "table 1"),
        AtChance("none, mean", 0.03, "table 1"),
        AtLeast("absolute, token", 0.9, "table 1"),
        AtLeast("absolute, mean", 0.9, "table 1"),
        AtLeast("sinusoidal, token", 0.95, "table 1"),
        AtLeast("sinusoidal, mean", 0.95, "table 1"),
        AtLeast("fourier, token", 0.9, "table 1"),
        AtLeast("fourier, mean", 0.9, "table 1"),
        AtLeast("relative, token", 0.8, "table 1"),
        AtLeast("relative, mean", 0.8, "table 1"),
        Better("fourier, token", "none, token", 0.5, "table 1"),
    ),
    gaps=(*GAPS, RELATIVE_GAP, "the thesis does not say how it joins the R^2 of both offsets: ours is their mean"),
)
