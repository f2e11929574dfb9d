"""Does a PEG need the zeros around its map?

Source: CPVT B.3, table 11. Cost: smoke 1 min, cpu 6 min, images 18 min on 2 cores; paper 5.1 GPU-hours.
Expected: on red-green images circular padding hides the border, so its arm is at chance, and a table beside it brings
the score back. Without padding the border shows nevertheless, because its patches are part of fewer windows, so the arm
is just below the one with zeros. On ImageNet: with zeros 72.4, without padding 70.5.
"""

from search_spaces.claim import Better
from search_spaces.studies._cpvt import BASE, BUDGETS, GAPS, PAPER
from search_spaces.study import Ablation, Published, Score, Study

CIRCULAR = {"kind": "peg", "places": [0], "padding": "circular"}

study = Study(
    name="peg-padding",
    question="Does a PEG need the zeros around its map?",
    family="cpvt",
    paper=f"{PAPER}, B.3, table 11",
    minutes={"smoke": 1, "cpu": 6, "images": 18},
    gpu_hours={"paper": 5.1},
    expected="circular padding is at chance on red-green images, no padding just below zeros; on photographs "
    "differences are small",
    found={
        "images": "3 seeds, test images: none 0.3999, zeros 0.4540, no padding 0.4472, circular 0.4205, circular and "
        "table 0.4338. Supported: “no padding” is better than “none” (+0.0473; 97.5 %, 0.0297 to 0.0648); “zeros” is "
        "better than “circular” (+0.0335; 96.7 %, 0.0097 to 0.0573). Inconclusive: “zeros” is better than “no "
        "padding” (+0.0068; 97.5 %, -0.0160 to 0.0296; about 9 seeds would decide it); “circular and table” is better "
        "than “circular” (+0.0133; 97.5 %, -0.0144 to 0.0410; about 5 seeds would decide it).",
    },
    base=BASE,
    plan=Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            "zeros": {},
            "no padding": {"encoding.padding": "valid"},
            "circular": {"encoding": CIRCULAR},
            "circular and table": {"encoding": {"kind": "composed", "parts": [{"kind": "learnable"}, CIRCULAR]}},
        },
        baseline="zeros",
    ),
    score=Score("val/accuracy"),
    budgets=BUDGETS,
    published=(
        Published("none", 0.682, None, "table 6, DeiT-tiny on ImageNet"),
        Published("zeros", 0.724, None, "table 11, CPVT-Ti on ImageNet"),
        Published("no padding", 0.705, None, "table 11, CPVT-Ti on ImageNet"),
    ),
    claims=(
        Better("zeros", "no padding", 0.0, "table 11: 72.4 against 70.5"),
        Better("no padding", "none", 0.0, "table 11: 70.5; table 6: 68.2"),
        Better("zeros", "circular", 0.0, "ours: the border is what shows absolute positions (3.2)"),
        Better("circular and table", "circular", 0.0, "ours: a table shows absolute positions in another way"),
    ),
    gaps=(
        *GAPS,
        "without padding the map shrinks (6 x 6 to 4 x 4) and there is no residual, as an author answered; the paper "
        "says only that the padding is removed",
        "no number published for circular padding; circular is at chance on red-green images by construction, which is "
        "no claim, because photographs have other cues",
        "B.3 names CPVT-S, the table CPVT-Ti, whose 72.4 it is",
    ),
)
