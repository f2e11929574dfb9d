"""Which encodings tell left from right?

Source: thesis 4.1, table 1, direction. Cost: cpu 5 minutes on 2 cores, paper 16.
Expected: every encoding solves it; without one the model is at chance.
"""

from search_spaces.claim import AtChance, AtLeast, Better
from search_spaces.studies._thesis import ARMS, BUDGETS, GAPS, PAPER
from search_spaces.study import Ablation, Published, Score, Study
from trainables.data import RedGreen
from trainables.recipe import Recipe

study = Study(
    name="red-green-direction",
    question="Which encodings tell left from right?",
    family="thesis",
    paper=f"{PAPER}, 4.1",
    cost="cpu 5 minutes on 2 cores, paper 16",
    expected="every encoding solves it; without one the model is at chance",
    base=Recipe(data=RedGreen(task="direction")),
    plan=Ablation(arms=ARMS, baseline="none"),
    score=Score("val/accuracy"),
    budgets=BUDGETS,
    published=(
        Published("none", 0.5272, 0.0108, "table 1", same_data=True),
        Published("absolute", 0.9943, 0.0036, "table 1", same_data=True),
        Published("sinusoidal", 0.9981, 0.0016, "table 1", same_data=True),
        Published("fourier", 0.9964, 0.0032, "table 1", same_data=True),
        Published("relative", 0.9992, 0.0006, "table 1", same_data=True),
        Published("relative, mean", 0.9992, 0.0006, "table 1", same_data=True),
    ),
    claims=(
        AtChance("none", 0.03, "table 1"),
        AtLeast("sinusoidal", 0.99, "table 1"),
        AtLeast("fourier", 0.99, "table 1"),
        Better("absolute", "none", 0.0, "table 1"),
    ),
    gaps=GAPS,
)
