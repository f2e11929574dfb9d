"""Is the piecewise index of offsets better than clipping them?

Source: the note on iRPE ("clip about equal to piecewise" for image classification); no number published. Cost: smoke 1
min, cpu 8 min, images 28 min on 2 cores.
Expected: alike within two points; an index that keeps every offset is no better.
"""

from search_spaces.claim import Better, Equivalent
from search_spaces.studies._irpe import BASE, BUDGETS, GAPS, PAPER
from search_spaces.study import Ablation, Score, Study

study = Study(
    name="irpe-index",
    question="Is the piecewise index of offsets better than clipping them?",
    family="irpe",
    paper=PAPER,
    minutes={"smoke": 1, "cpu": 8, "images": 28},
    expected="alike within two points; no number published",
    found={
        "cpu": "5 seeds: clip 0.9988 on test images, piecewise 0.9988, every offset 0.9990, none 0.52; all claims are "
        "supported.",
    },
    base=BASE,
    plan=Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            "clip": {"encoding.index.kind": "clip_ratio"},
            "piecewise": {"encoding.index.kind": "piecewise_ratio"},
            "every offset": {"encoding.index": {"kind": "clip", "beta": 7.0}},
        },
        baseline="clip",
    ),
    score=Score("val/accuracy"),
    seeds=10,
    budgets=BUDGETS,
    claims=(
        Better("clip", "none", 0.0),
        Better("piecewise", "none", 0.0),
        Equivalent("piecewise", "clip", 0.02, "the note: clip about equal to piecewise"),
    ),
    gaps=(*GAPS, "on a grid of 8 x 8 patches, where offsets reach 7; the paper's grid is 14 x 14"),
)
