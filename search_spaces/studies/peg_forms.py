"""Is one depth-wise 3 x 3 convolution enough of a PEG?

Source: CPVT B.7, table 14. Cost: smoke 2 min, cpu 12 min, images 25 min (an estimate) on 2 cores; paper 7.8 GPU-hours.
Expected: all forms are alike, because on a grid of 6 x 6 a kernel of 3 sees the border from four of six rows. On
ImageNet: depth-wise 3 x 3 72.4, 7 x 7 72.5, four depth-wise layers 72.4, dense 72.3, four dense layers 72.5.
"""

from search_spaces.claim import Better, NoWorse
from search_spaces.studies._cpvt import BASE, BUDGETS, GAPS, PAPER
from search_spaces.study import Ablation, Published, Score, Study

SIMPLE = "depth-wise 3 x 3"

study = Study(
    name="peg-forms",
    question="Is one depth-wise 3 x 3 convolution enough of a PEG?",
    family="cpvt",
    paper=f"{PAPER}, B.7, table 14",
    minutes={"smoke": 2, "cpu": 12, "images": 25},
    not_run=("images",),
    gpu_hours={"paper": 7.8},
    expected="all forms are alike and far above none",
    base=BASE,
    plan=Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            SIMPLE: {},
            "depth-wise 7 x 7": {"encoding.kernel": 7},
            "4 depth-wise": {"encoding.form": "depthwise_stack"},
            "dense": {"encoding.form": "dense"},
            "4 dense": {"encoding.form": "dense_stack"},
            "separable": {"encoding.form": "separable"},
        },
        baseline=SIMPLE,
    ),
    score=Score("val/accuracy"),
    seeds=10,
    budgets=BUDGETS,
    published=(
        Published("none", 0.682, None, "table 6, DeiT-tiny on ImageNet"),
        Published(SIMPLE, 0.724, None, "table 14, CPVT-Ti on ImageNet"),
        Published("depth-wise 7 x 7", 0.725, None, "table 14, CPVT-Ti on ImageNet"),
        Published("4 depth-wise", 0.724, None, "table 14, CPVT-Ti on ImageNet"),
        Published("dense", 0.723, None, "table 14, CPVT-Ti on ImageNet"),
        Published("4 dense", 0.725, None, "table 14, CPVT-Ti on ImageNet"),
    ),
    claims=(
        Better(SIMPLE, "none", 0.0, "table 6: 72.4 against 68.2"),
        NoWorse(SIMPLE, "depth-wise 7 x 7", 0.03, "table 14: 72.4 against 72.5"),
        NoWorse(SIMPLE, "4 depth-wise", 0.03, "table 14: both 72.4"),
        NoWorse(SIMPLE, "dense", 0.03, "table 14: 72.4 against 72.3"),
        NoWorse(SIMPLE, "4 dense", 0.03, "table 14: 72.4 against 72.5"),
        NoWorse(SIMPLE, "separable", 0.03, "ours: the 1 x 1 layer sees no further"),
    ),
    gaps=(
        *GAPS,
        "a stack has one residual around its four layers: the paper does not say where its residuals are",
        "4.4 counts the parameters of separable layers; no number published for one of them",
        "table 12's several PEGs, whose counts of parameters are those of separable layers, are in the study peg-count",
    ),
)
