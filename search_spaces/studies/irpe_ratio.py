"""Which ratio should iRPE's piecewise index have, with alpha, beta and gamma tied as 1 : 2 : 8?

Source: the note on iRPE; its published code (ratio 1.9); no number published. Cost: smoke 1 min, cpu 26 min, images 55
min on 2 cores.
Expected: flat from a ratio of 0.5 on, where beta reaches 1; at chance below. The free search (irpe-abg) finds no more.
"""

from search_spaces.claim import NoWorse
from search_spaces.space import Real, Space
from search_spaces.studies._images import SEARCHED
from search_spaces.studies._irpe import BASE, GAPS, PAPER
from search_spaces.studies._smoke import searched
from search_spaces.study import Budget, Halving, Score, Search, Study

RATIO = "encoding.index.ratio"

study = Study(
    name="irpe-ratio",
    question="Which ratio should iRPE's piecewise index have, with alpha, beta and gamma tied as 1 : 2 : 8?",
    family="irpe",
    paper=PAPER,
    minutes={"smoke": 1, "cpu": 26, "images": 55},
    expected="flat from a ratio of 0.5 on, at chance below; no number published",
    base=BASE.put({"encoding.index.kind": "piecewise_ratio"}),
    plan=Search(
        space=Space({RATIO: Real(0.3, 5.0, log=True)}),
        first=({RATIO: 1.9}, {RATIO: 2.5}),
        trials=16,
        stop=Halving(factor=3),
        rival=True,
    ),
    score=Score("val/accuracy"),
    budgets={
        "smoke": searched(trials=3),
        "cpu": Budget(),
        "images": Budget({**SEARCHED, "model.depth": 3, "optimizer.epochs": 9}, trials=8, seeds=3),
    },
    claims=(NoWorse("best", "first", 0.02, "ours: no worse than the published code's ratio 1.9"),),
    gaps=(
        *GAPS,
        "its README has two ratios in DETR on COCO alone, AP 0.409 at 1.9 and 0.410 at 2.0: detection is left out",
    ),
)
