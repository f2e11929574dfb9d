"""Scores by seed, and what they allow one to say: means, intervals, paired differences.

Pure. The seeds of a trial are the sample: an interval says where the mean over all seeds lies, for the images that the
study holds fixed. A diverged seed is in `values` at chance, and named in `diverged`; a missing one is not made up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import stdtr, stdtrit

CONFIDENCE = 0.95
"""Of every interval shown."""
ALPHA = 0.05
"""Of every one-sided test."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """What a score can be: its chance, its ends, and the smallest step that its images can show (1 / images)."""

    chance: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    step: float = 0.0

    def clip(self, interval: Interval | None) -> Interval | None:
        """An interval cut to what the score can be."""
        return interval and (max(interval[0], self.low), min(interval[1], self.high))


@dataclass(frozen=True)
class Estimate:
    """A mean over n seeds with its standard deviation and its standard error; neither for one seed."""

    n: int
    mean: float
    std: float | None = None
    error: float | None = None

    def interval(self, confidence: float = CONFIDENCE) -> Interval | None:
        """Student's t-interval of the mean; None for one seed, which shows no spread."""
        if self.error is None:
            return None
        half = float(stdtrit(self.n - 1, (1 + confidence) / 2)) * self.error
        return self.mean - half, self.mean + half

    def p_above(self, value: float) -> float | None:
        """The one-sided p of the null hypothesis that the true mean is `value` or less."""
        return None if self.error is None else float(stdtr(self.n - 1, -self._t(value)))

    def p_below(self, value: float) -> float | None:
        """The one-sided p of the null hypothesis that the true mean is `value` or more."""
        return None if self.error is None else float(stdtr(self.n - 1, self._t(value)))

    def p(self, value: float = 0.0) -> float | None:
        """The two-sided p of the null hypothesis that the true mean is `value`."""
        return None if self.error is None else 2 * float(stdtr(self.n - 1, -abs(self._t(value))))

    def _t(self, value: float) -> float:
        away = self.mean - value
        if self.error:
            return away / self.error
        return math.copysign(math.inf, away) if away else 0.0


def estimate(values: Sequence[float], floor: float = 0.0) -> Estimate:
    """The mean of some values and how sure it is.

    `floor`: the least standard deviation that the error is computed with. Scores come in steps, so equal scores do not
    mean that seeds make no difference (three seeds at 1.0 would else claim to be sure without end).
    Source: Student 1908; rounding to a step has a standard deviation of step / sqrt(12). Differs: the floor; it matters
    only where the spread is below a third of a step.
    """
    if len(values) < 2:
        return Estimate(len(values), fmean(values))
    std = stdev(values)
    return Estimate(len(values), fmean(values), std, max(std, floor) / math.sqrt(len(values)))


@dataclass(frozen=True)
class Scores:
    """One trial's scores by seed. `asked`: how many seeds there should be; `diverged`: those that stand at chance."""

    values: Mapping[int, float]
    asked: int
    scale: Scale = Scale()
    diverged: frozenset[int] = frozenset()

    @property
    def n(self) -> int:
        """How many seeds have an answer."""
        return len(self.values)

    @property
    def complete(self) -> bool:
        """True where every seed has an answer."""
        return self.n == self.asked

    @property
    def estimate(self) -> Estimate | None:
        """The mean over the answered seeds; None for none."""
        return estimate(list(self.values.values()), self.scale.step / math.sqrt(12)) if self.values else None

    @property
    def mean(self) -> float | None:
        """The mean over the answered seeds."""
        return self.estimate.mean if self.estimate else None

    @property
    def std(self) -> float | None:
        """The standard deviation over the answered seeds (n - 1)."""
        return self.estimate.std if self.estimate else None

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the mean, cut to what the score can be."""
        return self.scale.clip(self.estimate.interval()) if self.estimate else None


def difference(who: Scores, than: Scores) -> Estimate | None:
    """`who` minus `than`, paired over the seeds that both have; None for none.

    Source: the paired t-test. Differs: `estimate`'s floor, here of two rounded scores.
    """
    seeds = sorted(who.values.keys() & than.values.keys())
    floor = math.hypot(who.scale.step, than.scale.step) / math.sqrt(12)
    return estimate([who.values[seed] - than.values[seed] for seed in seeds], floor) if seeds else None


def holm(ps: Mapping[str, float]) -> dict[str, float]:
    """p-values by name, adjusted for having tested all of them.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    Differs: given as adjusted p-values, the running maximum of (m - rank) p, cut at 1.
    """
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(ps, key=lambda name: ps[name])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in ps}
