"""Which encodings measure the offset between two squares?

Source: thesis 4.1, table 1, distance. Cost: cpu 5 minutes on 2 cores, paper 16.
Expected: every encoding reaches an R^2 near 1; without one it is 0.
"""

from search_spaces.claim import AtChance, AtLeast, Better
from search_spaces.studies._thesis import ARMS, BUDGETS, GAPS, PAPER
from search_spaces.study import Ablation, Published, Score, Study
from trainables.data import RedGreen
from trainables.recipe import Recipe

study = Study(
    name="red-green-distance",
    question="Which encodings measure the offset between two squares?",
    family="thesis",
    paper=f"{PAPER}, 4.1",
    cost="cpu 5 minutes on 2 cores, paper 16",
    expected="every encoding reaches an R^2 near 1; without one it is 0",
    base=Recipe(data=RedGreen(task="distance")),
    plan=Ablation(arms=ARMS, baseline="none"),
    score=Score("val/r2"),
    budgets=BUDGETS,
    published=(
        Published("none", -0.01, 0.01, "table 1", same_data=True),
        Published("absolute", 0.92, 0.06, "table 1", same_data=True),
        Published("sinusoidal", 0.96, 0.01, "table 1", same_data=True),
        Published("fourier", 0.94, 0.03, "table 1", same_data=True),
        Published("relative", 0.84, 0.04, "table 1", same_data=True),
        Published("relative, mean", 0.84, 0.04, "table 1", same_data=True),
    ),
    claims=(
        AtChance("none", 0.03, "table 1"),
        AtLeast("sinusoidal", 0.95, "table 1"),
        Better("fourier", "none", 0.5, "table 1"),
    ),
    gaps=GAPS,
)
