"""How many channels of position must be beside the content in queries and keys?

Source: Gabor paper 5.2, figure 11. Cost: smoke 1 min, cpu 10 min on 2 cores; paper 1.5 GPU-hours.
Expected: the score rises up to 16 channels a head and hardly after that. The figure is a curve without numbers in our
copy. Edges are in v at every point, as in the paper. Eight seeds can hardly tell neighbors apart. Not run yet at cpu.
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
from search_spaces.study import Ablation, Budget, Score, Study


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
    claims=(
        Better("16", "0", 0.0, "figure 11: position in q and k helps beside edges in v"),
        Rising(("0", "1", "2", "4", "8", "16"), 0.0, "5.2: the more channels, the higher the accuracy"),
        NoWorse("16", "32", 0.02, "5.2: above 16 channels the increase is insignificant"),
    ),
    gaps=(
        *GAPS,
        "figure 11 is lost in our copy: no number published, and its numbers of channels are ours",
        "the paper does not say whether it counts the channels of a head or of all heads; ours are of a head",
        "logits stay divided by the root of the head's own width, as the backbone is frozen; the paper does not state "
        "this scale",
        "0 channels, edges in v alone, is 68.95 in table 4; none is 68.12 there",
    ),
)
