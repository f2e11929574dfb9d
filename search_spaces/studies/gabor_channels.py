"""How many channels of position must be beside the content in queries and keys?

Source: Gabor paper 5.2, figure 11. Cost: smoke 1 min, cpu 10 min on 2 cores; paper 1.5 GPU-hours.
Expected: the score rises up to 16 channels a head and hardly after that. The figure is lost in our copy; two sentences
of 5.2 are left of it. Edges are in v at every point, as in the paper. Eight seeds can hardly tell neighbors apart. Not
run yet at cpu.
"""

from typing import Any

from search_spaces.claim import Better, NoWorse, Rising
from search_spaces.studies._composed import both
from search_spaces.studies._gabor import (
    BASE,
    E_IN_V,
    G_E,
    GAPS,
    PAPER,
    PAPER_BUDGET,
    SMOKE_BUDGET,
    WITHOUT,
)
from search_spaces.study import Ablation, Budget, Published, Score, Study


def beside(channels: int) -> dict[str, Any]:
    """G+E in so many channels that are appended to each head's queries and keys; edges in v."""
    injection = {"kind": "extend", "channels": channels, "shared": False}
    return both({**G_E, "injection": injection}, E_IN_V)


COUNTS = {str(channels): channels for channels in (1, 2, 4, 8, 16, 32)}

study = Study(
    name="gabor-channels",
    question="How many channels of position must be beside the content in queries and keys?",
    family="gabor",
    paper=f"{PAPER}, 5.2, figure 11",
    minutes={"smoke": 1, "cpu": 10},
    gpu_hours={"paper": 1.5},
    expected="the score rises up to 16 channels a head and hardly after that; no number published",
    base=BASE,
    plan=Ablation(
        arms={
            "none": WITHOUT,
            "0": {"encoding": E_IN_V},
            **{name: beside(channels) for name, channels in COUNTS.items()},
        },
        baseline="0",
    ),
    score=Score("val/accuracy"),
    budgets={"smoke": SMOKE_BUDGET, "cpu": Budget(seeds=8), "paper": PAPER_BUDGET},
    published=(
        Published("none", 0.6812, None, "table 4, DeiT-tiny on ImageNet"),
        Published("0", 0.6895, None, "table 4, E in v, DeiT-tiny on ImageNet"),
    ),
    claims=(
        Better("16", "0", 0.0, "table 4: 70.80 against 68.95, where codes are added in q and k"),
        Rising(("0", "1", "2", "4", "8", "16"), 0.0, "5.2: the more channels, the higher the accuracy"),
        NoWorse("16", "32", 0.02, "5.2: above 16 channels the increase is insignificant"),
    ),
    gaps=(
        *GAPS,
        "figure 11 is lost in our copy: no number published, and its numbers of channels are ours, 0 among them",
        "the paper does not say whether it counts the channels of a head or of all heads; ours are of a head",
        "logits stay divided by the root of the head's own width, as the backbone is frozen; the paper does not state "
        "this scale",
    ),
)
