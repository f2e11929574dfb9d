"""What a score can be, and the second scale on which errors near a perfect score are not skewed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

GUESSED = 0.001
"""How often a seed that guesses may score above what counts as guessing. A study has dozens of seeds."""
UNCOUNTED = 1000
"""Scores with two ends that are not counted in images have the logits of so many."""


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
        """Returns the logit of a score; one beyond the ends counts as an end."""
        right = min(max((score - self.low) / (self.high - self.low), 0.0), 1.0) * self.images
        return math.log((right + 0.5) / (self.images - right + 0.5))

    def score(self, place: float) -> float:
        """Returns the score that has a logit; far out it lies half an image beyond the ends."""
        return self.low + (self.high - self.low) * (_share(place) * (self.images + 1) - 0.5) / self.images

    def slope(self, place: float) -> float:
        """Returns by how much the score rises as the logit rises by 1."""
        share = _share(place)
        return (self.high - self.low) * share * (1 - share) * (self.images + 1) / self.images


def _share(logit: float) -> float:
    """Returns the logistic function, without overflow."""
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


@dataclass(frozen=True)
class LogErrors:
    """The logarithm of 1 - R², with a minus: R² has an upper end, and no lower one.

    `least` is added to 1 - R², so that a perfect score has a place.
    """

    least: float = 1e-4

    def of(self, score: float) -> float:
        """Returns the place of an R²."""
        return -math.log(max(1 - score, 0.0) + self.least)

    def score(self, place: float) -> float:
        """Returns the R² at a place."""
        return 1 + self.least - math.exp(min(-place, 700.0))

    def slope(self, place: float) -> float:
        """Returns by how much R² rises there as the place rises by 1."""
        return math.exp(min(-place, 700.0))


Curve = Logits | LogErrors
"""A second scale of scores, on which errors near a perfect score are not skewed."""


@dataclass(frozen=True)
class Scale:
    """What a score can be: its chance, its ends, and the smallest step that its images can show (one more is right).

    `task`: False for values that nothing learns, such as correlations. `overlap`: if seeds are folds of the same
    images, how many images validate beside those that train.
    """

    chance: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    step: float = 0.0
    task: bool = True
    overlap: float = 0.0

    @property
    def curve(self) -> Curve | None:
        """The second scale: logits of scores with two ends, log(1 - R²) of R²; None for scores without an upper end."""
        if not math.isfinite(self.high):
            return None
        if not math.isfinite(self.low):
            return LogErrors()
        return Logits(self.low, self.high, (self.high - self.low) / self.step if self.step else UNCOUNTED)

    @property
    def rounding(self) -> float:
        """The standard deviation of rounding a score to a whole number of steps."""
        return self.step / math.sqrt(12)

    def guessing(self, seeds: int = 1, rate: float = GUESSED) -> float:
        """Returns what the mean of so many seeds that guess exceeds at this rate: one in a thousand.

        Chance for scores without steps or ends (R²), which a model that has learned nothing does not exceed.
        """
        if not (self.step and math.isfinite(self.high - self.low)):
            return self.chance
        share = (self.chance - self.low) / (self.high - self.low)
        error = math.sqrt(share * (1 - share) * self.step * (self.high - self.low) / seeds)
        return self.chance + NormalDist().inv_cdf(1 - rate) * error


NO_ENDS = Scale()
"""Any number."""
