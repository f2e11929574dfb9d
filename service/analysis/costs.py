"""What arms cost beside each other, from turns that they took one after another on one machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from service.analysis.findings import Finding, finding
from service.analysis.statistics import estimate
from service.storage.history import History

SURE = 0.99
"""How sure a difference must be; turns are many, so this asks little."""
AGREE = 0.03
"""The share by which two measurements of one arm may differ on a quiet machine; less is no difference."""


def ratio(own: Sequence[float], other: Sequence[float]) -> tuple[float, float] | None:
    """Returns how many times as much one arm takes, at least and at most; None where they cannot be told apart.

    A turn is compared with the other arm's turn beside it, so that what slows both down for a while does not count.
    """
    interval = estimate([math.log(a / b) for a, b in zip(own, other, strict=True)]).interval(SURE)
    if interval is None or (interval[0] <= math.log1p(AGREE) and interval[1] >= -math.log1p(AGREE)):
        return None
    return math.exp(interval[0]), math.exp(interval[1])


def costs_of(history: History, name: str, partner: str | None) -> list[Finding]:
    """Returns what an arm takes in training and in prediction, beside another one; nothing if it was not measured."""
    own, other = history.costs.arms.get(name), history.costs.arms.get(partner or "")
    if own is None:
        return []
    costs = []
    for work, field in (("training", "train_s"), ("prediction", "predict_s")):
        turns = getattr(own, field)
        values = {"own": 1000 * median(turns), "work": work}
        if other is None or partner == name:
            costs.append(finding("part.cost", **values))
            continue
        others = getattr(other, field)
        kind = "part.cost" if ratio(turns, others) else "part.cost alike"
        costs.append(finding(kind, **values, partner=partner, other=1000 * median(others)))
    return costs
