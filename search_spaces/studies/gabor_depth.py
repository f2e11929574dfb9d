"""How many of the first blocks need position?

Source: Gabor paper 4.5 and table 5. Cost: smoke 1 min, cpu 27 min, images 50 min (an estimate) on 2 cores; paper 1.3
GPU-hours.
Expected: more blocks are better, and the deep ones add little. On ImageNet: without 68.10, APE 70.02, blocks 1 to 3
70.38, 1 to 5 70.64, 1 to 6 70.73, 1 to 9 70.79, 1 to 12 70.80. The paper's steps after block 6 are far below what our
seeds can show.
"""

from typing import Any

from search_spaces.claim import Better, NoWorse, ProbeBetween, Rising
from search_spaces.studies._composed import both
from search_spaces.studies._gabor import (
    BASE,
    G_E,
    GAPS,
    LE,
    PAPER,
    PAPER_BUDGET,
    PHOTOGRAPHS,
    SMOKE_BUDGET,
    TOP_FIVE_GAP,
    WITHOUT,
    E,
    placed,
)
from search_spaces.study import Ablation, Budget, Published, Score, Study


def first(blocks: int) -> dict[str, Any]:
    """Returns G+E in q and k, and edges in v, of the first blocks."""
    return both(placed(G_E, "query", "key", blocks=blocks), placed(E, "value", blocks=blocks))


KEPT = "4.5: figure 10, channels of position “maintain the original shape in the shallow layer”"
DEPTHS = {f"1 to {blocks}": blocks for blocks in (3, 5, 6, 9, 12)}

study = Study(
    name="gabor-depth",
    question="How many of the first blocks need position?",
    family="gabor",
    paper=f"{PAPER}, 4.5 and table 5",
    minutes={"smoke": 1, "cpu": 27, "images": 50},
    not_run=("images",),
    gpu_hours={"paper": 1.3},
    expected="more blocks are better, and the deep ones add little",
    found={
        "cpu": "6 seeds, test images: none 0.6228, APE 0.7472, “1 to 3” 0.7381, “1 to 5” 0.7697, “1 to 6” 0.7844, “1 "
        "to 9” 0.8094, “1 to 12” 0.8192. Supported: “1 to 3” is better than “none” (+0.1153; 97.5 %, 0.0259 to "
        "0.2047); the score rises along “1 to 3”, “1 to 5”, “1 to 6”, “1 to 9” and “1 to 12” (+0.0202; 98 %, 0.0129 "
        "to 0.0275); “APE”: block_channels probe (shallow_above_deep) after training is at least 0 (+0.1193; 96.7 %, "
        "0.0273 to 0.2113). Inconclusive: “1 to 3” is better than “APE” (-0.0092; 98 %, -0.0328 to 0.0145; about 39 "
        "seeds would decide it); “1 to 6” is no worse than “1 to 12”, within 0.02 (-0.0347; 98 %, -0.0562 to -0.0132; "
        "about 15 seeds would decide it).",
    },
    base=BASE.put({"model.depth": 12, "model.embed_dim": 32, "model.num_heads": 2}),
    plan=Ablation(
        arms={
            "none": WITHOUT,
            "APE": {"encoding": LE},
            **{name: first(blocks) for name, blocks in DEPTHS.items()},
        },
        baseline="none",
    ),
    score=Score("val/accuracy"),
    seeds=10,
    budgets={
        "smoke": SMOKE_BUDGET,
        "cpu": Budget(),
        "images": Budget({**PHOTOGRAPHS, "model.depth": 12}, seeds=3),
        "paper": PAPER_BUDGET,
    },
    probes=("block_channels",),
    published=(
        Published("none", 0.6810, None, "table 5, DeiT-tiny on ImageNet"),
        Published("APE", 0.7002, None, "table 5, DeiT-tiny on ImageNet"),
        Published("1 to 3", 0.7038, None, "table 5, DeiT-tiny on ImageNet"),
        Published("1 to 5", 0.7064, None, "table 5, DeiT-tiny on ImageNet"),
        Published("1 to 6", 0.7073, None, "table 5, DeiT-tiny on ImageNet"),
        Published("1 to 9", 0.7079, None, "table 5, DeiT-tiny on ImageNet"),
        Published("1 to 12", 0.7080, None, "table 5, DeiT-tiny on ImageNet"),
    ),
    claims=(
        Better("1 to 3", "none", 0.0, "table 5: 70.38 against 68.10"),
        Better("1 to 3", "APE", 0.0, "table 5: 70.38 against 70.02"),
        Rising(tuple(DEPTHS), 0.0, "4.5: accuracy increases by position in more blocks (70.38 to 70.80)"),
        ProbeBetween("APE", "block_channels", "shallow_above_deep", 0.0, None, when="after", source=KEPT),
        NoWorse("1 to 6", "1 to 12", 0.02, "4.5: a global filter only works in shallow blocks (70.73 and 70.80)"),
    ),
    gaps=(
        GAPS[0].replace("3 blocks of 64 channels", "12 blocks of 32 channels"),
        *GAPS[1:],
        TOP_FIVE_GAP,
        "figure 10 shows two channels of one image after each block, of a model that is not named. The report draws "
        "two such channels; the claim is about the quarter of all channels in which the table has the largest share "
        "before the first block, in the arm with a table there",
    ),
)
