"""Which encodings tell the upper half of an image from the lower?

Source: thesis 4.2, table 3. Cost: cpu 5 minutes on 2 cores, paper 16.
Expected: every code of positions solves it; without one the model is at chance.
"""

from search_spaces.claim import AtChance, AtLeast
from search_spaces.studies._thesis import ARMS, BUDGETS, GAPS, PAPER
from search_spaces.study import Ablation, Published, Score, Study
from trainables.data import RedGreen
from trainables.recipe import Recipe

study = Study(
    name="red-green-absolute",
    question="Which encodings tell the upper half of an image from the lower?",
    family="thesis",
    paper=f"{PAPER}, 4.2",
    cost="cpu 5 minutes on 2 cores, paper 16",
    expected="every code of positions solves it; without one the model is at chance",
    base=Recipe(data=RedGreen(task="absolute")),
    plan=Ablation(arms=ARMS, baseline="none"),
    score=Score("val/accuracy"),
    budgets=BUDGETS,
    published=(
        Published("none", 0.4979, 0.0186, "table 3", same_data=True),
        Published("absolute", 0.9985, 0.0013, "table 3", same_data=True),
        Published("sinusoidal", 0.9994, 0.0010, "table 3", same_data=True),
        Published("fourier", 0.9999, 0.0003, "table 3", same_data=True),
        Published("relative", 0.5402, 0.0712, "table 3", same_data=True),
        Published("relative, mean", 0.5402, 0.0712, "table 3", same_data=True),
    ),
    claims=(
        AtChance("none", 0.05, "table 3"),
        AtLeast("absolute", 0.99, "table 3"),
        AtLeast("sinusoidal", 0.99, "table 3"),
        AtLeast("fourier", 0.99, "table 3"),
    ),
    gaps=GAPS,
)
