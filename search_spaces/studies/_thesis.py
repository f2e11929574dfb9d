"""What the studies of the thesis' fully controlled experiments share: the arms and the gaps."""

from typing import Any

from search_spaces.study import Budget

PAPER = "Zhang 2022, How to encode location in the Vision Transformer?"

ARMS: dict[str, dict[str, Any]] = {
    "none": {},
    "absolute": {"encoding.kind": "learnable"},
    "sinusoidal": {"encoding.kind": "sinusoidal"},
    "fourier": {"encoding.kind": "fourier", "encoding.gamma": 2.5},
}
"""Section 3, by the thesis' names. Its relative encoding is not among ours yet."""

GAPS = (
    "the thesis leaves image, patch and square sizes, width, heads, optimiser and read-out open: ours are ours",
    "10 seeds there, 3 here unless --seeds says otherwise",
    "its relative encoding (Ramachandran's) is not among the arms",
)

BUDGETS = {
    "smoke": Budget(
        values={"data.train": 2000, "optimiser.epochs": 9, "optimiser.lr": 0.003, "optimiser.batch": 50}, seeds=2
    ),
    "cpu": Budget(values={"optimiser.epochs": 20}),
    "paper": Budget(values={"optimiser.epochs": 20}, seeds=10),
}
