"""Scores by seed, and what can be concluded from them: means, intervals, paired differences.

Pure. The seeds of a trial are the sample: an interval says where the mean over all seeds lies, for the images that the
study holds fixed. A diverged seed is in `values` at chance and is listed in `diverged`; a missing seed is left out.
`service/README.md` holds the policy that these numbers follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean, stdev

from service.analysis.t_distribution import cdf, quantile
from trainables.data.dataset import luck

ALPHA = 0.05
"""The level of every test: the share of true null hypotheses that may be rejected."""
CONFIDENCE = 1 - ALPHA
"""The level of the interval of a mean, and of a difference that was tested alone."""
FEWEST = 3
"""How many seeds, or pairs of seeds, an interval or a test needs: with two, one degree of freedom decides nothing."""
SPLIT_SHARE = 0.25
"""Seeds split in two where the gap is at least this share of the way from chance to a perfect score."""
SPLIT_RATIO = 3.0
"""Seeds split in two only where the gap is also this many times as wide as either group."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """What a score can be: its chance, its ends, and the smallest step that its images can show (one more is right)."""

    chance: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    step: float = 0.0

    @property
    def luck(self) -> float:
        """How far above chance a model that guesses may score on so many images, at the level ALPHA.

        0 for scores without steps (R²), which a model that has learnt nothing does not exceed.
        """
        if not self.step:
            return 0.0
        width = self.high - self.low  # 1 for accuracy
        return width * luck((self.chance - self.low) / width, width / self.step)


@dataclass(frozen=True)
class Estimate:
    """A mean over n seeds with its standard deviation and standard error (None for one seed).

    `low`, `high`: the ends of what the mean can be; intervals are cut there. `df`: the degrees of freedom where they
    are not n - 1.
    """

    n: int
    mean: float
    std: float | None = None
    error: float | None = None
    low: float = -math.inf
    high: float = math.inf
    df: int | None = None

    @property
    def freedom(self) -> int:
        """The degrees of freedom of the t distribution."""
        return self.n - 1 if self.df is None else self.df

    @property
    def testable(self) -> bool:
        """True where there are enough values for an interval or a test."""
        return self.error is not None and self.n >= FEWEST

    def interval(self, confidence: float = CONFIDENCE) -> Interval | None:
        """Student's t-interval of the mean, cut to what the mean can be; None for too few values."""
        if self.error is None or not self.testable:
            return None
        half = quantile((1 + confidence) / 2, self.freedom) * self.error
        return max(self.mean - half, self.low), min(self.mean + half, self.high)

    def p_above(self, value: float) -> float | None:
        """The one-sided p of the null hypothesis that the true mean is `value` or less; None for too few values."""
        return cdf(-self._t(value), self.freedom) if self.testable else None

    def p_below(self, value: float) -> float | None:
        """The one-sided p of the null hypothesis that the true mean is `value` or more; None for too few values."""
        return cdf(self._t(value), self.freedom) if self.testable else None

    def p(self, value: float = 0.0) -> float | None:
        """The two-sided p of the null hypothesis that the true mean is `value`; None for too few values."""
        return 2 * cdf(-abs(self._t(value)), self.freedom) if self.testable else None

    def _t(self, value: float) -> float:
        away = self.mean - value
        if self.error:
            return away / self.error
        return math.copysign(math.inf, away) if away else 0.0


def estimate(values: Sequence[float], floor: float = 0.0, ends: Interval = (-math.inf, math.inf)) -> Estimate:
    """The mean of some values and how sure it is.

    `floor`: the least standard deviation that the error is computed with. Scores come in steps, so equal scores do not
    mean that seeds make no difference (without it, three seeds at 1.0 would give an interval without width).
    `ends`: of what the mean can be.
    Source: Student 1908; rounding to a step has a standard deviation of step / sqrt(12). Differs: the floor; it matters
    only where the spread is below a third of a step.
    """
    if len(values) < 2:
        return Estimate(len(values), fmean(values), low=ends[0], high=ends[1])
    std = stdev(values)
    return Estimate(len(values), fmean(values), std, max(std, floor) / math.sqrt(len(values)), *ends)


@dataclass(frozen=True)
class Scores:
    """One trial's scores by seed. `asked`: how many seeds there should be; `diverged`: those that count as chance."""

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

    @cached_property
    def estimate(self) -> Estimate | None:
        """The mean over the answered seeds; None for none."""
        if not self.values:
            return None
        ends = (self.scale.low, self.scale.high)
        return estimate(list(self.values.values()), self.scale.step / math.sqrt(12), ends)

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
        """The 95 % interval of the mean; None for fewer than three seeds."""
        return self.estimate.interval() if self.estimate else None

    @property
    def above_chance(self) -> bool:
        """True where the mean is above what guessing reaches, and its interval or every seed is above chance.

        A model that always gives the same answer has one score for all seeds, a little off chance: no interval over
        seeds can see that, the number of images can.
        """
        if self.mean is None or self.mean <= self.scale.chance + self.scale.luck:
            return False
        sure = self.interval is not None and self.interval[0] > self.scale.chance
        return sure or min(self.values.values()) > self.scale.chance + self.scale.luck

    @property
    def any_above_chance(self) -> bool:
        """True where at least one seed scores above what guessing reaches."""
        return any(value > self.scale.chance + self.scale.luck for value in self.values.values())

    @property
    def split(self) -> bool:
        """True where the seeds lie in two groups far apart, so that their mean describes neither."""
        values = sorted(self.values.values())
        if len(values) < FEWEST or not math.isfinite(self.scale.high):
            return False
        gap, place = max((after - before, place) for place, (before, after) in enumerate(pairwise(values)))
        widest = max(values[place] - values[0], values[-1] - values[place + 1])
        far = gap >= SPLIT_SHARE * (self.scale.high - self.scale.chance)
        return far and gap >= SPLIT_RATIO * widest


LEAST_GAIN = 0.05
"""The share of the way from chance to a perfect score that a seed needs before one asks how much of it is kept."""


def kept(after: Scores, before: Scores) -> Scores:
    """The share that a trial keeps of what it has above chance, by seed: 1 where nothing changes, 0 at chance.

    Seeds near chance before have nothing to keep, and are left out: the share of a gain of almost 0 may be any number.
    """
    chance, high = before.scale.chance, before.scale.high
    least = chance + max(before.scale.luck, LEAST_GAIN * (high - chance) if math.isfinite(high) else 0.0)
    had = {seed: own - chance for seed, own in before.values.items() if own > least and seed in after.values}
    values = {seed: (after.values[seed] - chance) / own for seed, own in had.items()}
    steps = math.hypot(after.scale.step, before.scale.step)
    return Scores(values, before.asked, Scale(step=steps / min(had.values(), default=1.0)))


def difference(who: Scores, than: Scores) -> Estimate | None:
    """`who` minus `than`, paired over the seeds that both have; None for none.

    Source: the paired t-test. Differs: `estimate`'s floor, here of two rounded scores.
    """
    return contrast((who, than), (1.0, -1.0))


def contrast(trials: Sequence[Scores], weights: Sequence[float]) -> Estimate | None:
    """The sum of weight times score, seed by seed, over the seeds that all trials have; None for none.

    Differs: `estimate`'s floor, here of so many rounded scores.
    """
    seeds = sorted(set.intersection(*({*one.values} for one in trials)))
    if not seeds:
        return None
    parts = [(one, weight) for one, weight in zip(trials, weights, strict=True) if weight]
    floor = math.hypot(*(weight * one.scale.step for one, weight in parts)) / math.sqrt(12)
    ends = [sorted((weight * one.scale.low, weight * one.scale.high)) for one, weight in parts]
    sums = [sum(weight * one.values[seed] for one, weight in parts) for seed in seeds]
    return estimate(sums, floor, (sum(low for low, _ in ends), sum(high for _, high in ends)))


def slope(trials: Sequence[Scores]) -> Estimate | None:
    """The slope of each seed's least-squares line over the trials, which stand at 0, 1, 2 and so on; None for no seed.

    A trial's scores are paired with the others' by seed, so the slopes of the seeds are the sample.
    """
    center = (len(trials) - 1) / 2
    square = sum((place - center) ** 2 for place in range(len(trials)))
    return contrast(trials, [(place - center) / square for place in range(len(trials))])


def unpaired(who: Scores, than: Scores) -> Estimate | None:
    """The mean of `who` minus that of `than`, whose seeds have nothing in common; None where either has no seed.

    Source: Welch 1947, The generalization of `Student's' problem when several different population variances are
    involved. Differs: the degrees of freedom are rounded down to a whole number, which widens the interval; the floor
    of `estimate` holds for each of the two.
    """
    one, other = who.estimate, than.estimate
    if one is None or other is None:
        return None
    ends = (who.scale.low - than.scale.high, who.scale.high - than.scale.low)
    n, mean = min(one.n, other.n), one.mean - other.mean
    if one.error is None or other.error is None:
        return Estimate(n, mean, low=ends[0], high=ends[1])
    error = math.hypot(one.error, other.error)
    parts = one.error**4 / (one.n - 1) + other.error**4 / (other.n - 1)
    df = max(1, math.floor(error**4 / parts * (1 + 1e-12))) if parts else one.n + other.n - 2
    return Estimate(n, mean, None, error, *ends, df)


@dataclass(frozen=True)
class Adjusted:
    """A p-value adjusted for several tests, and the level that the unadjusted one was held to.

    The unadjusted p lies below `level` exactly where `p` lies below ALPHA, so an interval at `level` agrees with `p`.
    """

    p: float
    level: float


def holm(ps: Mapping[str, float]) -> dict[str, Adjusted]:
    """p-values by name, adjusted for having tested all of them.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure; an interval at each test's own level:
    Serlin 1993, Confidence intervals and the scientific method. Differs: adjusted p-values are returned, the running
    maximum of (m - rank) p, cut at 1.
    """
    adjusted: dict[str, Adjusted] = {}
    largest, level, going = 0.0, ALPHA, True
    for rank, name in enumerate(sorted(ps, key=lambda name: ps[name])):
        tests = len(ps) - rank
        level = ALPHA / tests if going else level
        going = going and ps[name] < level
        largest = max(largest, min(1.0, tests * ps[name]))
        adjusted[name] = Adjusted(largest, level)
    return {name: adjusted[name] for name in ps}
