"""Are several PEGs better than one?

Source: CPVT B.4, table 12, whose "i-j" are PEGs after blocks i to j - 1 of 12: 0-1, 0-5 and 0-11. Cost: smoke 2 min,
cpu 28 min, images 30 min (an estimate) on 2 cores; paper 5.4 GPU-hours.
Expected: each PEG shows the border to the patches further in, so on a grid of 8 x 8 one is below 0.95, two are better,
five near 1. On ImageNet: tiny 72.4 (0-1), 73.4 (0-5), 73.4 (0-11); small 79.9, 80.5, 80.6.
"""

from search_spaces.claim import Better, NoWorse
from search_spaces.studies._cpvt import BASE, BUDGETS, DEEPER, IMAGES_GAP, PAPER, SIZE_GAP, TRAINING_GAPS
from search_spaces.study import Ablation, Budget, Published, Score, Study

study = Study(
    name="peg-count",
    question="Are several PEGs better than one?",
    family="cpvt",
    paper=f"{PAPER}, B.4, table 12",
    minutes={"smoke": 2, "cpu": 28, "images": 30},
    not_run=("images",),
    gpu_hours={"paper": 5.4},
    expected="several are better than one, because the border is seen from further in; after that more add little",
    base=BASE.put({"data.image_size": 32, "data.task": "direction", "model.depth": 6}),
    plan=Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            "0": {},
            "0 and 1": {"encoding.places": [0, 1]},
            "0 to 4": {"encoding.places": [0, 1, 2, 3, 4]},
            "0 to 4, separable": {"encoding.places": [0, 1, 2, 3, 4], "encoding.form": "separable"},
        },
        baseline="0",
    ),
    score=Score("val/accuracy"),
    seeds=10,
    budgets={**BUDGETS, "images": Budget(DEEPER, seeds=3)},
    published=(
        Published("none", 0.682, None, "table 6, DeiT-tiny on ImageNet"),
        Published("0", 0.724, None, "table 12, 0-1, CPVT-Ti on ImageNet"),
        Published("0 to 4", 0.734, None, "table 12, 0-5 and 0-11, CPVT-Ti on ImageNet"),
        Published("0 to 4, separable", 0.734, None, "table 12, 0-5 and 0-11, CPVT-Ti on ImageNet"),
    ),
    claims=(
        Better("0", "none", 0.0, "table 6: 72.4 against 68.2"),
        Better("0 to 4", "0", 0.0, "table 12: 73.4 (0-5) against 72.4 (0-1)"),
        Better("0 to 4, separable", "0", 0.0, "table 12: 73.4 (0-5) against 72.4 (0-1)"),
        NoWorse("0 and 1", "0 to 4", 0.03, "ours, after table 12: more PEGs add little, 73.4 (0-5) and 73.4 (0-11)"),
    ),
    gaps=(
        SIZE_GAP.replace("3 blocks", "6 blocks"),
        IMAGES_GAP,
        *TRAINING_GAPS,
        "places of 6 blocks stand for those of 12: after blocks 0 and 1 for 0-5, after 0 to 4 (all but the last) for "
        "0-5 and 0-11, which have the same score; in the budget paper, of 12 blocks, 0 to 4 is the paper's 0-5 and no "
        "arm is 0-11; the claim about 0 and 1 is ours",
        "table 12 counts 5.9 and 6.1 M parameters for several PEGs, which fits separable layers, not depth-wise ones; "
        "the caption of table 2, which has the same five PEGs, says depth-wise; so both are arms",
        "table 12's CPVT-S (79.9, 80.5, 80.6) has no arm",
    ),
)
