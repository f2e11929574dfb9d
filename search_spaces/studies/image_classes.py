"""For how many images does position matter, on a frozen backbone?

Source: Gabor paper 4.1, table 2. Cost: smoke 1 min, cpu 4 min, images 18 min (an estimate) on 2 cores; paper 0.72
GPU-hours.
Expected: most images are right with and without position (Ignored); more become right by it (Correct) than wrong
(Mislead). The paper gives no counts.
"""

from search_spaces.claim import Better, ProbeBetween
from search_spaces.studies._composed import both
from search_spaces.studies._gabor import (
    BASE,
    E_IN_V,
    G_E,
    GAPS,
    IMAGES_BUDGET,
    LE,
    PAPER,
    PAPER_BUDGET,
    SMOKE_BUDGET,
    WITHOUT,
    placed,
)
from search_spaces.study import Ablation, Budget, Published, Score, Study

GENERATED = "G+E in q, k; E in v"
FEW = "4.1: without position a model captures the features of most images"

study = Study(
    name="image-classes",
    question="For how many images does position matter, on a frozen backbone?",
    family="gabor",
    paper=f"{PAPER}, 4.1, table 2",
    minutes={"smoke": 1, "cpu": 4, "images": 18},
    not_run=("images",),
    gpu_hours={"paper": 0.72},
    expected="most images are Ignored, and more are Correct than Mislead; no counts published",
    found={
        "cpu": "5 seeds, test images: none 0.6727, APE 0.7670, G+E 0.7173, G+E in q and k with E in v 0.7710. All "
        "three claims are supported: APE is above none (+0.0943, 90 % interval 0.0705 to 0.1181), and more than half "
        "of the images are Ignored, with APE (0.6447, 96.7 % interval 0.6199 to 0.6694) and with G+E in q and k, E in "
        "v (0.6447; 95 %, 0.6151 to 0.6743). The gain in accuracy is Correct minus Mislead.",
    },
    base=BASE,
    plan=Ablation(
        arms={
            "none": WITHOUT,
            "APE": {"encoding": LE},
            "G+E": {"encoding": G_E},
            GENERATED: both(placed(G_E, "query", "key"), E_IN_V),
        },
        baseline="none",
    ),
    score=Score("val/accuracy"),
    budgets={"smoke": SMOKE_BUDGET, "cpu": Budget(), "images": IMAGES_BUDGET, "paper": PAPER_BUDGET},
    probes=("image_classes",),
    published=(
        Published("none", 0.6810, None, "table 3, DeiT-tiny on ImageNet"),
        Published("APE", 0.7002, None, "table 3, DeiT-tiny on ImageNet"),
        Published(GENERATED, 0.7080, None, "table 4, DeiT-tiny on ImageNet"),
    ),
    claims=(
        Better("APE", "none", 0.0, "4.1: a table on the frozen model improves accuracy"),
        ProbeBetween("APE", "image_classes", "ignored", 0.5, None, when="after", source=FEW),
        ProbeBetween(GENERATED, "image_classes", "ignored", 0.5, None, when="after", source=FEW),
    ),
    gaps=(
        *GAPS,
        "4.1 adds the learned table alone; the other two arms with position are ours, and so is the claim on one of "
        "them",
        "table 2 names the four classes and gives no counts. The text also says Misdirected for Mislead, and Corrected "
        "for Correct, and 4.1 says of Useless that position does not affect the result; by the table these images are "
        "wrong with and without it",
        "the paper's four classes serve to choose pictures (figure 8), which are not shown here",
        "the probe looks at 1,000 test images at most",
    ),
)
