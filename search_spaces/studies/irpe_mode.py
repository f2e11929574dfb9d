"""Are iRPE's contextual terms better than biases?

Source: the note on iRPE ("Contextual > Bias"); no number published. Cost: smoke 1 minute, cpu 5, images 36 on 2 cores.
Expected: both solve the task, so they are alike here. The note does not say how large the difference on ImageNet is; a
part of CIFAR-10 with three seeds shows only differences of several points.
"""

from search_spaces.claim import Better
from search_spaces.studies._irpe import BASE, BUDGETS, GAPS, PAPER
from search_spaces.study import Ablation, Score, Study

study = Study(
    name="irpe-mode",
    question="Are iRPE's contextual terms better than biases?",
    family="irpe",
    paper=PAPER,
    cost="smoke 1 minute, cpu 5, images 36 on 2 cores",
    expected="alike: only differences of several points can be seen here; no number published",
    base=BASE,
    plan=Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            "bias": {"encoding.mode": "bias"},
            "bias, a table a head": {"encoding.mode": "bias", "encoding.shared_heads": False},
            "contextual": {},
            "contextual, a table a head": {"encoding.shared_heads": False},
        },
        baseline="bias",
    ),
    score=Score("val/accuracy"),
    budgets=BUDGETS,
    claims=(
        Better("bias", "none", 0.0),
        Better("contextual", "none", 0.0),
        Better("contextual", "bias", 0.0, "the note: Contextual > Bias"),
    ),
    gaps=GAPS,
)
