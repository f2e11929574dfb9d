"""On which of queries, keys and values should iRPE be?

Source: iRPE's published README (DeiT-S with it on k 80.9, on q and k 81.0, on q, k and v 81.2; without it 79.9, CPVT's
table 2). Cost: smoke 1 min, cpu 12 min, images 44 min on 2 cores.
Expected: every place beats none on red-green images and all are alike; on photographs the order cannot be told apart.
"""

from search_spaces.claim import Better, NoWorse
from search_spaces.studies._irpe import BASE, BUDGETS, GAPS, PAPER
from search_spaces.study import Ablation, Published, Score, Study

study = Study(
    name="irpe-qkv",
    question="On which of queries, keys and values should iRPE be?",
    family="irpe",
    paper=f"{PAPER}, its README",
    minutes={"smoke": 1, "cpu": 12, "images": 44},
    expected="every place beats none; all are alike but v alone, of which one seed of five stays at chance at cpu",
    found={
        "cpu": "5 seeds: none 0.53, k 0.9992, q 0.9996, q and k 1.0000, all three 0.9988; v alone 0.90, because one "
        "seed of five stays at chance. All three claims are supported.",
    },
    base=BASE,
    plan=Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            "k": {},
            "q": {"encoding.on": ["q"]},
            "v": {"encoding.on": ["v"]},
            "q and k": {"encoding.on": ["q", "k"]},
            "q, k and v": {"encoding.on": ["q", "k", "v"]},
        },
        baseline="k",
    ),
    score=Score("val/accuracy"),
    seeds=10,
    budgets=BUDGETS,
    published=(
        Published("none", 0.799, None, "CPVT table 2, DeiT-S on ImageNet with its table of positions"),
        Published("k", 0.809, None, "README, DeiT-S on ImageNet"),
        Published("q and k", 0.810, None, "README, DeiT-S on ImageNet"),
        Published("q, k and v", 0.812, None, "README, DeiT-S on ImageNet"),
    ),
    claims=(
        Better("k", "none", 0.0, "README: 80.9; DeiT-S has 79.9, both with a table of positions"),
        NoWorse("q and k", "k", 0.02, "README: 81.0 against 80.9"),
        NoWorse("q, k and v", "k", 0.02, "README: 81.2 against 80.9"),
    ),
    gaps=(
        *GAPS[:-1],
        "no number published for q alone and v alone; the README has no row without iRPE",
        "its other models: DeiT-Ti on k 73.7; DeiT-B on k 82.3, on q, k and v 82.8",
    ),
)
