"""Accuracies as logits: near a perfect score their errors are skewed, and logits are not."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Logits:
    """The logits of scores from `low` to `high` that are counted in so many images.

    Half an image is added on both sides, so that a perfect score has a logit.
    Source: Haldane 1956; Anscombe 1956 (the empirical logit). Differs: nothing.
    """

    low: float
    high: float
    images: float

    def of(self, score: float) -> float:
        """The logit of a score; one beyond the ends counts as an end."""
        right = min(max((score - self.low) / (self.high - self.low), 0.0), 1.0) * self.images
        return math.log((right + 0.5) / (self.images - right + 0.5))

    def score(self, logit: float) -> float:
        """The score that has a logit; far out it lies half an image beyond the ends."""
        return self.low + (self.high - self.low) * (_share(logit) * (self.images + 1) - 0.5) / self.images

    def slope(self, logit: float) -> float:
        """By how much the score rises as the logit rises by 1."""
        share = _share(logit)
        return (self.high - self.low) * share * (1 - share) * (self.images + 1) / self.images


def _share(logit: float) -> float:
    """The logistic function, without overflow."""
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0
