"""Scores by seed, the range that they can have, and what follows from them: means, intervals, tests.

The seeds of a trial are the sample: each seed that has a score counts in each number. A diverged seed is in `values` at
chance and is listed in `diverged`. `service/README.md` has the policy that these numbers follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist, fmean, stdev
from typing import TYPE_CHECKING

from service.planning.stopping import cdf, quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


ALPHA = 0.05
"""The two-sided level of all tests on a page together, over all looks (times at which verdicts are computed)."""
CONFIDENCE = 1 - ALPHA
"""The level of intervals: for a mean it holds alone, for differences it holds for all of them together."""
EACH_LOOK = 0.75
"""The share that each look takes of the part of ALPHA that earlier looks have left."""
FEWEST = 3
"""An interval or a test needs this many seeds, or pairs: with two, one degree of freedom decides nothing."""
SPLIT_SHARE = 0.25
"""Seeds lie in two groups if the gap between them is at least this share of the way from chance to a perfect score."""
SPLIT_RATIO = 3.0
"""Seeds lie in two groups only if the gap is also this many times as wide as either group."""
LEAST_IMAGES = 0.5
"""The variance that other test images add is at least that of half an image in each trial."""
ALIKE_IMAGES = 2.0
"""If trials are said to be alike, it is at least that of two images: seeds that agree on few images show little."""

Interval = tuple[float, float]


def share_of(look: int) -> float:
    """Returns the share of ALPHA that the tests at a look get: 3/4 at the first, then 3/16, 3/64 and so on; 1 in sum.

    A look is a number of seeds, or of points, at which verdicts could be seen. A user who adds seeds until a claim is
    supported looks several times, and each look may err.
    Source: Bonferroni's inequality over looks, with unequal shares (alpha spending: Lan and DeMets 1983). Differs: the
    looks need no plan, as there is a share for each that may come.
    """
    return EACH_LOOK * (1 - EACH_LOOK) ** (look - 1)


GUESSED = 0.001
"""The share of guessing seeds that may score above `Scale.guessing`. It is small, as a study has dozens of seeds."""
UNCOUNTED = 1000
"""Scores with two ends that are not counted in images get their logits as if there were this many images."""


@dataclass(frozen=True)
class Logits:
    """The logits of scores from `low` to `high` that are counted in `images` images.

    Half an image is added on both sides, so that a perfect score has a logit.
    Source: Haldane 1956; Anscombe 1956 (the empirical logit). Differs: nothing.
    """

    low: float
    high: float
    images: float

    def of(self, score: float) -> float:
        """Returns the logit of a score; a score beyond the ends has the logit of the nearer end."""
        right = min(max((score - self.low) / (self.high - self.low), 0.0), 1.0) * self.images
        return math.log((right + 0.5) / (self.images - right + 0.5))

    def score(self, logit: float) -> float:
        """Returns the score that has this logit; for very large ones it lies half an image beyond the ends."""
        return self.low + (self.high - self.low) * (self._share(logit) * (self.images + 1) - 0.5) / self.images

    def slope(self, logit: float) -> float:
        """Returns the derivative of the score by the logit."""
        share = self._share(logit)
        return (self.high - self.low) * share * (1 - share) * (self.images + 1) / self.images

    def _share(self, logit: float) -> float:
        """Returns the share of right images that has this logit."""
        return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0  # beyond, exp overflows


@dataclass(frozen=True)
class LogErrors:
    """The positions of R² on the scale -log(1 - R²): R² has an upper end, and no lower one.

    `least` is added to 1 - R², so that a perfect score has a position.
    """

    least: float = 1e-4

    def of(self, score: float) -> float:
        """Returns the position of an R²."""
        return -math.log(max(1 - score, 0.0) + self.least)

    def score(self, position: float) -> float:
        """Returns the R² at a position."""
        return 1 + self.least - math.exp(min(-position, 700.0))

    def slope(self, position: float) -> float:
        """Returns the derivative of R² by the position."""
        return math.exp(min(-position, 700.0))


Curve = Logits | LogErrors
"""A second scale of scores, on which errors near a perfect score are not skewed."""


@dataclass(frozen=True)
class Scale:
    """What a score can be: its chance, its ends, and its smallest step, which is that of one more right image.

    `task` is False for values that nothing learns, such as correlations. `overlap` is the number of validation images
    divided by that of training images, if seeds are folds of the same images; else 0.
    """

    chance: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    step: float = 0.0
    task: bool = True
    overlap: float = 0.0

    @property
    def curve(self) -> Curve | None:
        """The second scale: logits for scores with two ends, log(1 - R²) for R²; None if scores have no upper end."""
        if not math.isfinite(self.high):
            return None
        if not math.isfinite(self.low):
            return LogErrors()
        return Logits(self.low, self.high, (self.high - self.low) / self.step if self.step else UNCOUNTED)

    @property
    def rounding(self) -> float:
        """The standard deviation that rounding a score to a whole number of steps brings."""
        return self.step / math.sqrt(12)

    def guessing(self, seeds: int = 1, rate: float = GUESSED) -> float:
        """Returns the value that the mean of guessing seeds exceeds at this rate; chance for R², which has no steps."""
        if not (self.step and math.isfinite(self.high - self.low)):
            return self.chance
        share = (self.chance - self.low) / (self.high - self.low)
        error = math.sqrt(share * (1 - share) * self.step * (self.high - self.low) / seeds)
        return self.chance + NormalDist().inv_cdf(1 - rate) * error


NO_ENDS = Scale()
"""The scale of values that may be any number."""


@dataclass(frozen=True)
class Estimate:
    """A mean over n seeds with its standard deviation `std` and standard error `error` (both None for one seed).

    `low` and `high` are the ends of what the mean can be; intervals are cut there. `df` has the degrees of freedom if
    they are not n - 1. `twin` asks the same question on the second scale. A test is significant only if it is on both
    scales, and the interval holds both intervals: so neither skewed errors near a perfect score nor the transformation
    of scores that are not skewed makes a finding. `curve` is the second scale, if `mean` and `error` are on it.
    `draws` is how many draws of test images, or single images, the error was measured over, beside seeds; it is 1 if
    the images are fixed. `overlap` is that of the scale. More seeds do not make smaller `floor`, the least standard
    error of the seeds, and `images`, the variance that other images add. `seeds` has the error and the degrees of
    freedom of seeds alone, if images were added: a test is significant only if it is for seeds alone, too.
    """

    n: int
    mean: float
    std: float | None = None
    error: float | None = None
    low: float = -math.inf
    high: float = math.inf
    df: int | None = None
    twin: Estimate | None = None
    curve: Curve | None = None
    draws: int = 1
    overlap: float = 0.0
    floor: float = 0.0
    images: float = 0.0
    seeds: tuple[float, int] | None = None

    @property
    def spread(self) -> float | None:
        """The standard deviation of one seed that follows from the error without that of images; None for one value."""
        if self.error is None:
            return None
        return math.sqrt(max(0.0, self.error**2 - self.images)) / of_mean(self.n, self.overlap)

    def of_more(self, n: int, std: float) -> tuple[float, int]:
        """Returns the error and the degrees of freedom of a mean of n values that have this standard deviation."""
        seeds = max(std * of_mean(n, self.overlap), self.floor) ** 2
        return _seeds_and_images(seeds, n - 1, self.images, self.draws)

    @property
    def freedom(self) -> int:
        """The degrees of freedom of the t distribution."""
        return self.n - 1 if self.df is None else self.df

    @property
    def testable(self) -> bool:
        """True if there are enough values for an interval or a test."""
        return self.error is not None and self.n >= FEWEST

    def interval(self, confidence: float = CONFIDENCE) -> Interval | None:
        """Returns Student's t-interval of the mean, widened by that of the twin and cut to the scale.

        It returns None for too few values.
        """
        if self.error is None or not self.testable:
            return None
        errors = [(self.error, self.freedom), *([self.seeds] if self.seeds else [])]
        half = max(quantile((1 + confidence) / 2, df) * error for error, df in errors)
        low, high = self.mean - half, self.mean + half
        if self.curve:
            low, high = self.curve.score(low), self.curve.score(high)
        if self.twin and (other := self.twin.interval(confidence)):
            low, high = min(low, other[0]), max(high, other[1])
        return max(low, self.low), min(high, self.high)

    def p_above(self, value: float) -> float | None:
        """Returns the one-sided p of the hypothesis that the true mean is at most `value`; None for too few values."""
        return self._p(value, -1)

    def p_below(self, value: float) -> float | None:
        """Returns the one-sided p of the hypothesis that the true mean is at least `value`; None for too few values."""
        return self._p(value, 1)

    def p(self, value: float = 0.0) -> float | None:
        """Returns the two-sided p of the null hypothesis that the true mean is `value`; None for too few values."""
        sides = [p for p in (self.p_above(value), self.p_below(value)) if p is not None]
        return min(1.0, 2 * min(sides)) if sides else None

    def _p(self, value: float, side: int) -> float | None:
        """Returns the one-sided p of a true mean at `value`: `p_above` if `side` is -1, `p_below` if it is 1."""
        if not self.testable:
            return None
        if value > self.high if side > 0 else value < self.low:  # no mean lies there
            return 0.0
        away = side * (self.mean - (self.curve.of(value) if self.curve else value))
        certain = math.copysign(math.inf, away) if away else 0.0  # without an error it is infinitely many errors away
        errors = [(self.error or 0.0, self.freedom), *([self.seeds] if self.seeds else [])]
        ps = [cdf(away / error if error else certain, df) for error, df in errors]
        other = self.twin._p(value, side) if self.twin else None
        return max(ps) if other is None else max(*ps, other)


def of_mean(n: int, overlap: float = 0.0) -> float:
    """Returns the standard error of a mean of n values, divided by the standard deviation of one value.

    Folds of the same images are no independent sample: each two of them share training images, so more folds do not
    make the error as small as they would elsewhere. `overlap` is that of `Scale`.
    Source: Nadeau and Bengio 2003, Inference for the generalization error, section 3 (the corrected resampled t-test).
    Differs: parts are not drawn at random, they are the folds of one deal after another (Bouckaert and Frank 2004).
    """
    return math.sqrt(1 / n + overlap)


def estimate(
    values: Sequence[float],
    floor: float = 0.0,
    ends: Interval = (-math.inf, math.inf),
    *,
    curve: Curve | None = None,
    twin: Estimate | None = None,
    overlap: float = 0.0,
) -> Estimate:
    """Returns the mean of some values, with its standard error.

    `floor` is the least standard error. Scores come in steps, so equal scores do not mean that seeds make no difference
    (without it, three seeds at 1.0 would give an interval without width). More seeds that are all rounded to one step
    say nothing new, so the floor does not shrink with their number. `ends` are the limits of what the mean can be.
    Source: Student 1908; rounding to a step has a standard deviation of step / sqrt(12). Differs: the floor; it matters
    only if the spread is below a step or so.
    """
    if len(values) < 2:
        return Estimate(len(values), fmean(values), None, None, *ends, None, twin, curve, overlap=overlap)
    std = stdev(values)
    error = max(std * of_mean(len(values), overlap), floor)
    return Estimate(len(values), fmean(values), std, error, *ends, None, twin, curve, overlap=overlap, floor=floor)


def drawn(trials: Sequence[Scores], weights: Sequence[float], seeds: Sequence[int]) -> list[list[float]]:
    """Returns the trials' weighted sum of scores by draw of test images, then by seed; empty if a run lacks draws."""
    by_trial = [[(trial.values[seed], *trial.further.get(seed, ())) for seed in seeds] for trial in trials]
    counts = {len(scores) for by_seed in by_trial for scores in by_seed}
    if len(counts) != 1 or counts == {1}:
        return []
    return [
        [
            math.fsum(weight * by_seed[index][draw] for by_seed, weight in zip(by_trial, weights, strict=True))
            for index in range(len(seeds))
        ]
        for draw in range(counts.pop())
    ]


def over_draws(over_seeds: Estimate, *sides: Sequence[Sequence[float]]) -> Estimate:
    """Returns an estimate whose error also holds for other test images of the same kind.

    A side has one score for each draw of images and each seed; a sum of means over unlike seeds has several sides.
    Another draw adds the variance of the draws' means, less what seeds bring to it, which is that of residuals. The
    mean stays that of the first draw, which is the study's own.
    All this is asked on the second scale, too: near a perfect score the two differ most.
    Source: two-way random effects (Searle, Casella and McCulloch 1992, 4.5); degrees of freedom: Satterthwaite 1946.
    Differs: these are rounded down; a sum has the residuals of its sides.
    """
    count = len(sides[0])
    if not count or over_seeds.error is None or any(len(side) != count for side in sides):
        return over_seeds
    twin = over_seeds.twin
    if twin is not None:
        transform = twin.curve.of if twin.curve else float
        positions = [[[transform(score) for score in draw] for draw in side] for side in sides]
        twin = _wider(twin, _of_draws(positions), count)
    return replace(_wider(over_seeds, _of_draws(sides), count), twin=twin)


def _of_draws(sides: Sequence[Sequence[Sequence[float]]]) -> float:
    """Returns the variance that another draw of images adds: that of the draws' means, less what seeds bring to it.

    Seeds bring the variance of the residuals, which neither seed nor draw explains.
    """
    means, residuals = [], []
    for side in sides:
        draws, seeds = [fmean(draw) for draw in side], [fmean(column) for column in zip(*side, strict=True)]
        center = fmean(draws)
        rest = [
            score - mean - seed_mean + center
            for draw, mean in zip(side, draws, strict=True)
            for score, seed_mean in zip(draw, seeds, strict=True)
        ]
        square = math.fsum(residual * residual for residual in rest)
        residuals.append(square / ((len(draws) - 1) * (len(seeds) - 1)) / len(seeds))
        means.append(draws)
    together = [math.fsum(draw) for draw in zip(*means, strict=True)]
    return max(0.0, stdev(together) ** 2 - math.fsum(residuals))


def over_images(
    over_seeds: Estimate,
    trials: Sequence[Scores],
    weights: Sequence[float],
    seeds: Sequence[int],
    least: float = LEAST_IMAGES,
) -> Estimate:
    """Returns an estimate whose error also holds for other images, of which the test images are a sample.

    It returns the estimate unchanged for fewer than two seeds, if the images that a run has right are not known, and if
    trials are tested on unlike numbers of images. Other images add at least the variance of `least` images that change
    in each trial, so that equal answers to few images are no certainty.
    Source: as `over_draws`; the single images are the draws, and the score is the mean over all of them.
    """
    counts = {len(trial.right.get(seed, ())) for trial in trials for seed in seeds}
    alike = len(seeds) > 1 and len(counts) == 1 and counts != {0}
    if over_seeds.error is None or not alike or over_seeds.draws > 1:
        return over_seeds
    import numpy as np  # here, for it takes a while to import

    pairs = [*zip(trials, weights, strict=True)]
    right = np.sum([weight * np.stack([trial.right[seed] for seed in seeds]) for trial, weight in pairs], axis=0)
    count = right.shape[1]
    rest = right - right.mean(0) - right.mean(1, keepdims=True) + right.mean()
    residual = float((rest**2).sum()) / ((len(seeds) - 1) * (count - 1)) / len(seeds)
    floor = least * math.fsum((weight * trial.scale.step) ** 2 for trial, weight in pairs)
    images = max((float(right.mean(0).var(ddof=1)) - residual) / count, floor)
    twin = over_seeds.twin
    if twin is not None:
        slope = twin.curve.slope(twin.mean) if twin.curve else 1.0
        twin = _wider(twin, images / slope**2, count)
    return replace(_wider(over_seeds, images, count), twin=twin)


def _wider(narrow: Estimate, images: float, draws: int) -> Estimate:
    """Returns the estimate with the variance of images added to its error."""
    assert narrow.error is not None
    error, df = _seeds_and_images(narrow.error**2, narrow.freedom, images, draws)
    alone = (narrow.error, narrow.freedom)
    return replace(narrow, error=error, df=df, draws=draws, images=images, seeds=alone)


def _seeds_and_images(seeds: float, df: int, images: float, draws: int) -> tuple[float, int]:
    """Returns the error from the variances of seeds and of images together, and its degrees of freedom."""
    parts = seeds**2 / df + (images**2 / (draws - 1) if images else 0.0)
    together = max(1, math.floor((seeds + images) ** 2 / parts * (1 + 1e-12))) if parts else df
    return math.sqrt(seeds + images), together


@dataclass(frozen=True)
class Scores:
    """One trial's scores by seed. `asked` is how many seeds there should be; seeds in `diverged` count as chance.

    `further` has, by seed, the scores on further draws of the test images, if a generator makes these. `right` has, by
    seed, the score of each fixed test image alone: that of a right or of a wrong answer. `best_of` is among how many
    trials this one was chosen by the same runs; its interval is one of so many that hold together.
    """

    values: Mapping[int, float]
    asked: int
    scale: Scale = NO_ENDS
    diverged: frozenset[int] = frozenset()
    further: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    right: Mapping[int, NDArray[np.float64]] = field(default_factory=dict, compare=False)
    best_of: int = 1

    @property
    def n(self) -> int:
        """How many seeds have a score."""
        return len(self.values)

    @property
    def complete(self) -> bool:
        """True if every seed has a score."""
        return self.n == self.asked

    @cached_property
    def above_chance(self) -> bool:
        """True if the mean over all seeds is higher than guessing explains.

        If scores are not counted in images, the interval of the mean, or every seed, must be above chance.
        """
        if self.mean is None or self.mean <= self.scale.guessing(self.n):
            return False
        ends = self.estimate.interval() if self.estimate else None
        sure = ends is not None and ends[0] > self.scale.chance
        return bool(self.scale.step) or sure or min(self.values.values()) > self.scale.chance

    @cached_property
    def failed(self) -> frozenset[int]:
        """The seeds that failed: those that diverged, and the lower of two groups if its mean is at chance.

        It is at chance if one guess in twenty scores as high: with one in a thousand, a seed would count as failed that
        learned something. For values of probes, and if the trial is not above guessing, only diverged seeds failed.
        """
        if not (self.scale.task and self.above_chance):
            return self.diverged
        low = [self.values[seed] for seed in self.lower]
        return self.diverged | (self.lower if low and fmean(low) <= self.scale.guessing(rate=ALPHA) else frozenset())

    @cached_property
    def trained(self) -> Scores:
        """The scores of the seeds that did not fail; only claims that say so are judged on them."""
        if not self.failed:
            return self
        values = {seed: value for seed, value in self.values.items() if seed not in self.failed}
        return replace(self, values=values, asked=self.asked - len(self.failed), diverged=frozenset())

    @cached_property
    def estimate(self) -> Estimate | None:
        """The mean over all seeds with its standard error; None if no seed has a score."""
        if not self.values:
            return None
        scale, values = self.scale, list(self.values.values())
        floor, ends, overlap = scale.rounding, (scale.low, scale.high), scale.overlap
        twin = None
        if curve := scale.curve:
            on = [curve.of(value) for value in values]
            twin = estimate(on, floor / curve.slope(fmean(on)), curve=curve, overlap=overlap)
        over_seeds = estimate(values, floor, ends, twin=twin, overlap=overlap)
        over_seeds = over_draws(over_seeds, drawn([self], [1.0], [*self.values]))
        return over_images(over_seeds, [self], [1.0], [*self.values])

    @property
    def mean(self) -> float | None:
        """The mean over all seeds that have a score; None if there is none."""
        return fmean(self.values.values()) if self.values else None

    @property
    def std(self) -> float | None:
        """The standard deviation over the seeds that have a score (with n - 1); None for fewer than two."""
        return stdev(self.values.values()) if self.n > 1 else None

    @cached_property
    def interval(self) -> Interval | None:
        """The 95 % interval of the mean, for the best of `best_of` trials; None for fewer than three seeds.

        If the mean lies above chance, it is cut there: a seed that learns nothing is at chance, so no mean lies below.
        """
        ends = self.estimate.interval(1 - ALPHA / self.best_of) if self.estimate else None
        if ends is None or not self.scale.task or self.mean is None or self.mean <= self.scale.chance:
            return ends
        return max(ends[0], self.scale.chance), ends[1]

    @cached_property
    def lower(self) -> frozenset[int]:
        """The seeds of the lower group, if seeds lie in two groups far apart; empty if they lie in one."""
        order = sorted(self.values, key=lambda seed: self.values[seed])
        if len(order) < FEWEST or not math.isfinite(self.scale.high):
            return frozenset()
        values = [self.values[seed] for seed in order]
        gap, last = max((after - before, index) for index, (before, after) in enumerate(pairwise(values)))
        widest = max(values[last] - values[0], values[-1] - values[last + 1])
        far = gap >= SPLIT_SHARE * (self.scale.high - self.scale.chance)
        return frozenset(order[: last + 1]) if far and gap >= SPLIT_RATIO * widest else frozenset()
