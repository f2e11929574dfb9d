"""What arms cost beside each other, from turns that they took one after another on one machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from search_spaces.words import quoted
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


def cost_words(history: History, name: str, partner: str | None) -> list[str]:
    """Returns what an arm takes in training and in prediction, beside another one; none if it was not measured."""
    own, other = history.costs.arms.get(name), history.costs.arms.get(partner or "")
    if own is None:
        return []
    words = []
    for what, of in (("training", "train_s"), ("prediction", "predict_s")):
        mine = getattr(own, of)
        beside = ""
        if other is not None and partner and partner != name:
            apart = ratio(mine, getattr(other, of))
            theirs = f"{1000 * median(getattr(other, of)):.2f}"
            beside = f" ({quoted(partner)} {theirs}" + ("" if apart else ", not distinguishable") + ")"
        words.append(f"{1000 * median(mine):.2f} ms an image in {what}{beside}")
    return words
