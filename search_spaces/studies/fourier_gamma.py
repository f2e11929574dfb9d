"""How far should one wave of Fourier features reach?

Source: thesis 3.3 and 5.1; no number published for gamma. Cost: smoke 1 min, cpu 9 min on 2 cores.
Expected: accuracy on `direction` peaks for gamma between 1 and 5 patches and falls to chance far beyond the grid.
"""

from search_spaces.claim import AtLeast
from search_spaces.space import Real, Space
from search_spaces.studies._thesis import OPEN_GAP, PAPER
from search_spaces.study import Budget, Halving, Published, Score, Search, Study
from trainables.data import RedGreen
from trainables.encodings import Fourier
from trainables.recipe import Recipe

study = Study(
    name="fourier-gamma",
    question="Which gamma lets Fourier features tell left from right?",
    family="thesis",
    paper=f"{PAPER}, 3.3 and 5.1",
    minutes={"smoke": 1, "cpu": 9},
    expected="accuracy peaks for gamma between 1 and 5 patches and falls to chance far beyond the grid; no number "
    "published for gamma",
    base=Recipe(data=RedGreen(task="direction"), encoding=Fourier(gamma=2.5)),
    plan=Search(
        space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}),
        first=({"encoding.gamma": 2.5}, {"encoding.gamma": 40.0}, {"encoding.gamma": 1.5}),
        trials=20,
        stop=Halving(factor=3),
        rival=True,
    ),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(
            {"data.train_size": 2000, "optimizer.epochs": 9, "optimizer.lr": 0.003, "optimizer.batch_size": 50},
            trials=4,
            stop=False,
            rival=False,
            gap="smoke trains too little for the paper's score: it only separates good lengths from bad ones",
        ),
        "cpu": Budget({"optimizer.epochs": 10}),
    },
    published=(
        Published("best", 0.9964, 0.0032, "thesis table 1, learnable Fourier (its gamma is not given)", same_data=True),
    ),
    claims=(AtLeast("best", 0.99, "thesis table 1"),),
    gaps=(
        OPEN_GAP,
        "10 seeds there, 5 here unless --seeds says otherwise",
    ),
)
