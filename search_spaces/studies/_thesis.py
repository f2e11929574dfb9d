"""What the studies of the thesis' fully controlled experiments share: the arms and the gaps."""

from typing import Any

from search_spaces.study import Budget

PAPER = "Zhang 2022, How to encode location in the Vision Transformer?"

ARMS: dict[str, dict[str, Any]] = {
    "none": {},
    "absolute": {"encoding.kind": "learnable"},
    "sinusoidal": {"encoding.kind": "sinusoidal"},
    "fourier": {"encoding.kind": "fourier", "encoding.gamma": 2.5},
    "relative": {"encoding.kind": "relative"},
    "relative, mean": {"encoding.kind": "relative", "model.pool": "avg"},
}
"""Section 3, by the thesis' names. One block read by its class token is blind to `relative`: so both read-outs."""

GAPS = (
    "the thesis leaves image, patch and square sizes, width, heads, optimizer and read-out open: we chose ours",
    "10 seeds there, 3 here unless --seeds says otherwise",
    "it does not name its read-out: relative is tried with the class token and with mean pooling",
)

BUDGETS = {
    "smoke": Budget(
        values={"data.train_size": 2000, "optimizer.epochs": 9, "optimizer.lr": 0.003, "optimizer.batch_size": 50},
        seeds=2,
        gap="smoke trains too little, on two seeds: it shows that every arm runs, not what it scores",
    ),
    "cpu": Budget(values={"optimizer.epochs": 20}),
    "paper": Budget(values={"optimizer.epochs": 20}, seeds=10),
}
