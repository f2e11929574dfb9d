"""Is a PEG a position encoding, or only some more parameters?

Source: CPVT 5.1, table 5. Cost: smoke 1 min, cpu 10 min, images 18 min (an estimate) on 2 cores; paper 5.4 GPU-hours.
Expected: a PEG that stays as it was drawn, and one that only queries and keys see, are far above none; one that stays
as another run had learned it equals the learned one. On ImageNet: none 68.2, fixed at random values 71.3, fixed at
learned ones 72.3, on queries and keys alone 71.3, learned 72.4.
"""

from search_spaces.claim import Better, NoWorse
from search_spaces.studies._cpvt import BASE, BUDGETS, GAPS, PAPER
from search_spaces.study import Ablation, Published, Score, Study
from trainables.recipe import FromTrial

LEARNED = FromTrial(values={"encoding.frozen": False}, part="encoding")
"""The PEG of the arm `learned` at the same seed; all else is drawn."""

study = Study(
    name="peg-frozen",
    question="Is a PEG a position encoding, or only some more parameters?",
    family="cpvt",
    paper=f"{PAPER}, 5.1, table 5",
    minutes={"smoke": 1, "cpu": 10, "images": 18},
    not_run=("images",),
    gpu_hours={"paper": 5.4},
    expected="fixed PEGs and one for queries and keys alone are far above none; fixed as learned equals learned",
    base=BASE,
    plan=Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            "learned": {},
            "fixed, random": {"encoding.frozen": True},
            "fixed, learned": {"encoding.frozen": True, "init": LEARNED.plain()},
            "q and k": {"encoding.into": "query_key"},
        },
        baseline="learned",
    ),
    score=Score("val/accuracy"),
    seeds=10,
    budgets=BUDGETS,
    published=(
        Published("none", 0.682, None, "table 5, DeiT-tiny on ImageNet"),
        Published("learned", 0.724, None, "table 5, DeiT-tiny on ImageNet"),
        Published("fixed, random", 0.713, None, "table 5, DeiT-tiny on ImageNet"),
        Published("fixed, learned", 0.723, None, "table 5, DeiT-tiny on ImageNet"),
        Published("q and k", 0.713, None, "5.1, beside table 5, DeiT-tiny on ImageNet"),
    ),
    claims=(
        Better("fixed, random", "none", 0.0, "table 5: 71.3 against 68.2"),
        Better("q and k", "none", 0.0, "5.1: 71.3 against 68.2"),
        NoWorse("fixed, learned", "learned", 0.03, "table 5: 72.3 against 72.4"),
        NoWorse("q and k", "learned", 0.03, "5.1: 71.3, similar to the one on q, k and v (72.4)"),
        Better("learned", "fixed, random", 0.0, "table 5: 72.4 against 71.3"),
    ),
    gaps=(
        *GAPS,
        "what queries and keys see is our reading: those of the block after the PEG read the normalized sum of patches "
        "and PEG, values the normalized patches",
        "the random start of a fixed PEG is torch's default for a convolution; the paper does not give its own",
        "table 5's row of kernel 1 in 12 layers (68.6) is in the study peg-kernel",
    ),
)
