"""Which encodings tell the upper half of an image from the lower?

Source: thesis 4.2, table 3. Cost: smoke 1 min, cpu 28 min on 2 cores; paper 2.7 GPU-hours.
Expected: every code of positions solves it under both read-outs; `none` is at chance. The thesis says that `relative`
cannot: so it is with the class token, while with mean pooling the softmax at the borders tells it where it is.
"""

from search_spaces.claim import AtChance, AtLeast
from search_spaces.studies._thesis import AXES, BUDGETS, GAPS, PAPER, RELATIVE_GAP
from search_spaces.study import Ablation, Published, Score, Study
from trainables.data import RedGreen
from trainables.recipe import Recipe

study = Study(
    name="absolute",
    question="Which encodings tell the upper half of an image from the lower?",
    family="thesis",
    paper=f"{PAPER}, 4.2",
    minutes={"smoke": 1, "cpu": 28},
    gpu_hours={"paper": 2.7},
    expected="every code of positions solves it under both read-outs, relative with mean pooling; none is at chance",
    base=Recipe(data=RedGreen(task="absolute", data_seed=1)),
    plan=Ablation(axes=AXES, baseline="none"),
    score=Score("val/accuracy"),
    budgets=BUDGETS,
    published=(
        Published("none, token", 0.4979, 0.0186, "table 3", same_data=True),
        Published("absolute, token", 0.9985, 0.0013, "table 3", same_data=True),
        Published("sinusoidal, token", 0.9994, 0.0010, "table 3", same_data=True),
        Published("fourier, token", 0.9999, 0.0003, "table 3", same_data=True),
        Published("relative, token", 0.5402, 0.0712, "table 3", same_data=True),
        Published("relative, mean", 0.5402, 0.0712, "table 3", same_data=True),
    ),
    claims=(
        AtChance("none, token", 0.05, "table 3"),
        AtChance("none, mean", 0.05, "table 3"),
        AtLeast("absolute, token", 0.99, "table 3"),
        AtLeast("absolute, mean", 0.99, "table 3"),
        AtLeast("sinusoidal, token", 0.99, "table 3"),
        AtLeast("sinusoidal, mean", 0.99, "table 3"),
        AtLeast("learnable sinusoidal, token", 0.99, "ours: 5.2 starts it equal to sinusoidal"),
        AtLeast("learnable sinusoidal, mean", 0.99, "ours: 5.2 starts it equal to sinusoidal"),
        AtLeast("fourier, token", 0.99, "table 3"),
        AtLeast("fourier, mean", 0.99, "table 3"),
        AtChance("relative, token", 0.1, "table 3 and 4.2: relative cannot encode absolute location"),
        AtChance("relative, mean", 0.1, "table 3 and 4.2: relative cannot encode absolute location"),
    ),
    gaps=(*GAPS, RELATIVE_GAP),
)
