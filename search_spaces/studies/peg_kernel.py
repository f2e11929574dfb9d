"""How large must the kernel of a PEG be?

Source: CPVT 5.1 and table 5 (kernels of 1 x 1), 5.2 and table 6 (27 x 27 before the first block), B.7 and table 14 (7 x
7).
Cost: smoke 2 min, cpu 32 min, images 29 min (an estimate) on 2 cores; paper 8.6 GPU-hours.
Expected: kernel 1 equals none, at chance, because it sees no neighbor and no border. Kernel 3 sees the border only from
the two outer rows on each side, so on a grid of 8 x 8 it stays below 0.95, and 5, 7 and 27 come near 1. Before the
first block a kernel of 27 is better than one of 3. On ImageNet: none 68.2, twelve layers of 1 x 1 68.6, 3 x 3 72.4, 7 x
7 72.5; before the first block 3 x 3 70.6, 27 x 27 72.5.
"""

from search_spaces.claim import AtChance, Better, Equivalent, NoWorse
from search_spaces.studies._cpvt import BASE, BUDGETS, GAPS, PAPER
from search_spaces.study import Ablation, Published, Score, Study

study = Study(
    name="peg-kernel",
    question="How large must the kernel of a PEG be?",
    family="cpvt",
    paper=f"{PAPER}, 5.1, 5.2 and B.7, tables 5, 6 and 14",
    minutes={"smoke": 2, "cpu": 32, "images": 29},
    not_run=("images",),
    gpu_hours={"paper": 8.6},
    expected="kernel 1 equals none, at chance; kernel 3 is above it, larger ones see more of the border and are better",
    base=BASE.put({"data.image_size": 32}),
    plan=Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            "1": {"encoding.kernel": 1},
            "1, dense, twice": {"encoding.kernel": 1, "encoding.form": "dense", "encoding.places": [-1, 0]},
            "3": {},
            "5": {"encoding.kernel": 5},
            "7": {"encoding.kernel": 7},
            "3 at -1": {"encoding.places": [-1]},
            "27 at -1": {"encoding.places": [-1], "encoding.kernel": 27},
        },
        baseline="none",
    ),
    score=Score("val/accuracy"),
    seeds=10,
    budgets=BUDGETS,
    published=(
        Published("none", 0.682, None, "table 5, DeiT-tiny on ImageNet"),
        Published("1, dense, twice", 0.686, None, "table 5, kernel 1 in 12 layers of DeiT-tiny on ImageNet"),
        Published("3", 0.724, None, "table 5, DeiT-tiny on ImageNet"),
        Published("7", 0.725, None, "table 14, CPVT-Ti on ImageNet"),
        Published("3 at -1", 0.706, None, "table 6, DeiT-tiny on ImageNet"),
        Published("27 at -1", 0.725, None, "table 6, DeiT-tiny on ImageNet"),
    ),
    claims=(
        AtChance("none", 0.03),
        Equivalent("1", "none", 0.03, "ours: one pixel of the map shows neither neighbors nor the border"),
        Equivalent("1, dense, twice", "none", 0.03, "table 5: 12 layers of kernel 1 have 68.6, none 68.2"),
        Better("3", "none", 0.0, "table 5: 72.4 against 68.2"),
        Better("3", "1, dense, twice", 0.0, "table 5: 72.4 against 68.6, with fewer parameters"),
        NoWorse("3", "7", 0.03, "table 14: 72.4 against 72.5, the improvement of 7 x 7 is limited"),
        Better("27 at -1", "3 at -1", 0.0, "table 6: 72.5 against 70.6"),
        NoWorse("27 at -1", "3", 0.03, "5.2: 72.5, similar to the one positioning the PEG at 0 (72.4)"),
    ),
    gaps=(
        *GAPS,
        "table 5 has 12 layers of kernel 1; here two, before the first block and after it, also in the budget paper",
        "the form of table 5's layers is not given; the count it prints (6.13 M) is near that of dense ones with bias",
        "the paper's 27 sees its whole grid of 14 x 14 from each patch; on our grid of 8 x 8, 15 does the same",
        "no number published for one layer of kernel 1, nor for kernel 5",
        "table 6's other places are in the study peg-placement, table 14's other forms in peg-forms, table 5's fixed "
        "PEGs in peg-frozen",
    ),
)
