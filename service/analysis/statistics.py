"""Scores by seed, and what can be concluded from them: means, intervals, paired differences.

Pure. The seeds of a trial that learn are the sample: an interval says where the score of such seeds lies, for the
images that the study holds fixed. How many seeds learn is a result of its own (`scores.py`). A diverged seed is in
`values` at chance and is listed in `diverged`; a missing seed is left out. `service/README.md` holds the policy that
these numbers follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist, fmean, stdev

from service.planning.t_distribution import cdf, quantile
from trainables.data.dataset import luck


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

    def score(self, logit: float) -> float:
        """Returns the score that has a logit; far out it lies half an image beyond the ends."""
        return self.low + (self.high - self.low) * (_share(logit) * (self.images + 1) - 0.5) / self.images

    def slope(self, logit: float) -> float:
        """Returns by how much the score rises as the logit rises by 1."""
        share = _share(logit)
        return (self.high - self.low) * share * (1 - share) * (self.images + 1) / self.images


def _share(logit: float) -> float:
    """Returns the logistic function, without overflow."""
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


ALPHA = 0.05
"""The level of all tests of a study: the share of true null hypotheses that may be rejected, at all looks together."""
FIRST_LOOK = 0.9
"""The share of ALPHA that the first look gets. A smaller share would cost a study with one look too much power."""
CONFIDENCE = 1 - ALPHA
"""The level of the interval of a mean, and of a difference that was tested alone."""
FEWEST = 3
"""How many seeds, or pairs of seeds, an interval or a test needs: with two, one degree of freedom decides nothing."""
GUESSED = 0.001
"""How often a seed that guesses may count as one that learns. A study has dozens of seeds, so ALPHA would be too often:
of ten seeds of a trial at chance one would seem to learn in 40 % of cases."""
SPLIT_SHARE = 0.25
"""Seeds split in two where the gap is at least this share of the way from chance to a perfect score."""
SPLIT_RATIO = 3.0
"""Seeds split in two only if the gap is also this many times as wide as either group."""

Interval = tuple[float, float]


def level_of(look: int) -> float:
    """Returns the level of the tests at a look: 0.045 at the first one, then 0.0025, 0.00125 and so on, 0.05 in all.

    A look is a number of seeds, or of points, at which verdicts could be seen. Who adds seeds until a claim is
    supported looks several times, and each look may err.
    Source: Bonferroni's inequality over looks, with unequal shares (alpha spending: Lan and DeMets 1983). Differs: the
    looks need no plan, as there is a share for each that may come.
    """
    return ALPHA * (FIRST_LOOK if look == 1 else (1 - FIRST_LOOK) / 2 ** (look - 1))


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
    def logits(self) -> Logits | None:
        """The logits of accuracies; None for scores that are not counted in images."""
        counted = self.step and math.isfinite(self.low) and math.isfinite(self.high)
        return Logits(self.low, self.high, (self.high - self.low) / self.step) if counted else None

    @property
    def rounding(self) -> float:
        """The standard deviation of rounding a score to a whole number of steps."""
        return self.step / math.sqrt(12)

    @property
    def luck(self) -> float:
        """How far above chance a model that guesses may score on so many images, at the level ALPHA.

        0 for scores without steps (R²), which a model that has learnt nothing does not exceed.
        """
        if not self.step:
            return 0.0
        width = self.high - self.low  # 1 for accuracy
        return width * luck((self.chance - self.low) / width, width / self.step)

    @property
    def learns(self) -> float:
        """The score above which a seed learns: guessing exceeds it with the probability GUESSED."""
        return self.chance + self.luck * NormalDist().inv_cdf(1 - GUESSED) / NormalDist().inv_cdf(1 - ALPHA)


@dataclass(frozen=True)
class Estimate:
    """A mean over n seeds with its standard deviation and standard error (None for one seed).

    `low`, `high`: the ends of what the mean can be; intervals are cut there. `df`: the degrees of freedom where they
    are not n - 1. `twin`: the same question asked of logits, of accuracies. A test finds something where both find it,
    and the interval holds both intervals: so neither skewed errors near a perfect score nor the transformation of
    scores that are not skewed makes a finding. `logits`: the scale of `mean` and `error`, of a twin that is on it.
    `draws`: over how many draws of test images the error was measured, beside seeds; 1 if the images are fixed.
    `overlap`: that of the scale. What more seeds do not make smaller: `floor`, the least standard error of the seeds;
    `images`, the variance that a draw of images adds; `drawn`, that of the draws' means (draws - 1 degrees of freedom).
    """

    n: int
    mean: float
    std: float | None = None
    error: float | None = None
    low: float = -math.inf
    high: float = math.inf
    df: int | None = None
    twin: Estimate | None = None
    logits: Logits | None = None
    draws: int = 1
    overlap: float = 0.0
    floor: float = 0.0
    images: float = 0.0
    drawn: float = 0.0

    @property
    def spread(self) -> float | None:
        """The standard deviation of one seed that the error belongs to, images beside; None for one value."""
        if self.error is None:
            return None
        return math.sqrt(max(0.0, self.error**2 - self.images)) / of_mean(self.n, self.overlap)

    def of_more(self, n: int, std: float) -> tuple[float, int]:
        """Returns the error and the degrees of freedom that n such values would have, if one deviates by `std`."""
        seeds = max(std * of_mean(n, self.overlap), self.floor) ** 2
        return _seeds_and_images(seeds, n - 1, self.images, self.drawn, self.draws)

    @property
    def freedom(self) -> int:
        """The degrees of freedom of the t distribution."""
        return self.n - 1 if self.df is None else self.df

    @property
    def testable(self) -> bool:
        """True if there are enough values for an interval or a test."""
        return self.error is not None and self.n >= FEWEST

    def interval(self, confidence: float = CONFIDENCE) -> Interval | None:
        """Returns Student's t-interval of the mean or of the logits, cut to the scale; None for too few values."""
        if self.error is None or not self.testable:
            return None
        half = quantile((1 + confidence) / 2, self.freedom) * self.error
        low, high = self.mean - half, self.mean + half
        if self.logits:
            low, high = self.logits.score(low), self.logits.score(high)
        if self.twin and (other := self.twin.interval(confidence)):
            low, high = min(low, other[0]), max(high, other[1])
        return max(low, self.low), min(high, self.high)

    def p_above(self, value: float) -> float | None:
        """Returns the one-sided p of the null hypothesis that the true mean is `value` or less.

        None for too few values.
        """
        return self._p(value, -1)

    def p_below(self, value: float) -> float | None:
        """Returns the one-sided p of the null hypothesis that the true mean is `value` or more.

        None for too few values.
        """
        return self._p(value, 1)

    def p(self, value: float = 0.0) -> float | None:
        """Returns the two-sided p of the null hypothesis that the true mean is `value`; None for too few values."""
        sides = [p for p in (self.p_above(value), self.p_below(value)) if p is not None]
        return min(1.0, 2 * min(sides)) if sides else None

    def _p(self, value: float, side: int) -> float | None:
        if not self.testable:
            return None
        if value > self.high if side > 0 else value < self.low:  # no mean lies there
            return 0.0
        own = cdf(side * self._t(value), self.freedom)
        other = self.twin._p(value, side) if self.twin else None
        return own if other is None else max(own, other)

    def _t(self, value: float) -> float:
        away = self.mean - (self.logits.of(value) if self.logits else value)
        if self.error:
            return away / self.error
        return math.copysign(math.inf, away) if away else 0.0


def of_mean(n: int, overlap: float = 0.0) -> float:
    """Returns the standard error of a mean of n values, as a multiple of the deviation of one.

    Folds of the same images are no independent sample: each two of them share images to train, so more folds do not
    make the error as small as they would elsewhere. `overlap`: the images that validate beside those that train.
    Source: Nadeau and Bengio 2003, Inference for the generalization error, section 3 (the corrected resampled t-test).
    Differs: parts are not drawn at random, they are the folds of one deal after another (Bouckaert and Frank 2004).
    """
    return math.sqrt(1 / n + overlap)


def estimate(
    values: Sequence[float],
    floor: float = 0.0,
    ends: Interval = (-math.inf, math.inf),
    *,
    logits: Logits | None = None,
    twin: Estimate | None = None,
    overlap: float = 0.0,
) -> Estimate:
    """Returns the mean of some values and how sure it is.

    `floor`: the least standard error. Scores come in steps, so equal scores do not mean that seeds make no difference
    (without it, three seeds at 1.0 would give an interval without width). More seeds that are all rounded to one step
    say nothing new, so the floor does not shrink with their number. `ends`: of what the mean can be.
    Source: Student 1908; rounding to a step has a standard deviation of step / sqrt(12). Differs: the floor; it matters
    only if the spread is below a step or so.
    """
    if len(values) < 2:
        return Estimate(len(values), fmean(values), None, None, *ends, None, twin, logits, overlap=overlap)
    std = stdev(values)
    error = max(std * of_mean(len(values), overlap), floor)
    return Estimate(len(values), fmean(values), std, error, *ends, None, twin, logits, overlap=overlap, floor=floor)


def drawn(trials: Sequence[Scores], weights: Sequence[float], seeds: Sequence[int]) -> list[list[float]]:
    """Returns the sum of weight times score for each draw of test images and each seed.

    Empty if a run lacks its draws.
    """
    every = [[(trial.values[seed], *trial.further.get(seed, ())) for seed in seeds] for trial in trials]
    counts = {len(scores) for by_seed in every for scores in by_seed}
    if len(counts) != 1 or counts == {1}:
        return []
    return [
        [
            math.fsum(weight * by_seed[place][draw] for by_seed, weight in zip(every, weights, strict=True))
            for place in range(len(seeds))
        ]
        for draw in range(counts.pop())
    ]


def over_draws(over_seeds: Estimate, *sides: Sequence[Sequence[float]]) -> Estimate:
    """Returns an estimate whose error also holds for other test images of the same kind.

    `sides`: for each draw of images a score a seed; of a sum of means over unlike seeds, such scores for each of them.
    The variance that another draw brings is that of the draws' means, less what seeds bring to it: their residuals. The
    mean stays that of the first draw, which is the study's own.
    Of accuracies all this is asked of their logits, too: near a perfect score the two differ most.
    Source: two-way random effects (Searle, Casella and McCulloch 1992, 4.5); degrees of freedom: Satterthwaite 1946.
    Differs: these are rounded down, and take the variance of the means as it is; a sum has the residuals of its sides.
    """
    if not sides[0] or over_seeds.error is None or any(len(side) != len(sides[0]) for side in sides):
        return over_seeds
    twin = over_seeds.twin
    if twin is not None:
        of = twin.logits.of if twin.logits else float
        twin = _wider(twin, [[[of(score) for score in draw] for draw in side] for side in sides])
    return replace(_wider(over_seeds, sides), twin=twin)


def _wider(narrow: Estimate, sides: Sequence[Sequence[Sequence[float]]]) -> Estimate:
    """Returns an estimate whose error also holds for other draws, of scores or of their logits."""
    assert narrow.error is not None
    means = [math.fsum(map(fmean, draws)) for draws in zip(*sides, strict=True)]
    spread = stdev(means) ** 2
    images = max(0.0, spread - math.fsum(map(_residual, sides)))
    error, df = _seeds_and_images(narrow.error**2, narrow.freedom, images, spread, len(means))
    return replace(narrow, error=error, df=df, draws=len(means), images=images, drawn=spread)


def _seeds_and_images(seeds: float, df: int, images: float, drawn: float, draws: int) -> tuple[float, int]:
    """Returns the error of two variances together, and its degrees of freedom (`drawn`: see `Estimate`)."""
    parts = seeds**2 / df + (drawn**2 / (draws - 1) if images else 0.0)
    together = max(1, math.floor((seeds + images) ** 2 / parts * (1 + 1e-12))) if parts else df
    return math.sqrt(seeds + images), together


def _residual(draws: Sequence[Sequence[float]]) -> float:
    """Returns the variance that seeds alone bring to the mean of a draw: of what neither seed nor draw explains."""
    seeds, count = len(draws[0]), len(draws)
    means, own = [fmean(draw) for draw in draws], [fmean(column) for column in zip(*draws, strict=True)]
    center = fmean(means)
    rest = [
        score - mean - seed_mean + center
        for draw, mean in zip(draws, means, strict=True)
        for score, seed_mean in zip(draw, own, strict=True)
    ]
    return math.fsum(residual * residual for residual in rest) / ((count - 1) * (seeds - 1)) / seeds


@dataclass(frozen=True)
class Scores:
    """One trial's scores by seed. `asked`: how many seeds there should be; `diverged`: those that count as chance.

    `further`: by seed, the scores on further draws of the test images, where these are made by a generator.
    """

    values: Mapping[int, float]
    asked: int
    scale: Scale = Scale()
    diverged: frozenset[int] = frozenset()
    further: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """How many seeds have an answer."""
        return len(self.values)

    @property
    def complete(self) -> bool:
        """True if every seed has an answer."""
        return self.n == self.asked

    @cached_property
    def learnt(self) -> frozenset[int]:
        """The seeds that learn: above `Scale.learns`, and not in the lower group where seeds split in two.

        All of them for values of probes, and where there is no perfect score: there is nothing to learn.
        """
        if not (self.scale.task and math.isfinite(self.scale.high)):
            return frozenset(self.values)
        learnt = frozenset(seed for seed, value in self.values.items() if value > self.scale.learns)
        return learnt - self._lower

    @property
    def cells(self) -> list[tuple[float, Scores]]:
        """The scores whose runs learn or fail, with what each counts: these themselves, or those of several tasks."""
        return [(1.0, self)]

    @property
    def uniform(self) -> bool:
        """True if the seeds are one group: none diverged, and they do not split; or all of them learn, or none.

        If they are two groups, the mean of all describes neither. If they are one that lies about the threshold of
        learning, those above it are the lucky ones.
        """
        return not (self._lower | self.diverged) or len(self.learnt) in (0, self.n)

    @cached_property
    def sound(self) -> Scores:
        """The scores of the seeds that learn, if seeds are two groups; else all scores."""
        if self.uniform:
            return self
        failed = self._lower | self.diverged
        values = {seed: value for seed, value in self.values.items() if seed not in failed}
        return Scores(values, len(values), self.scale, further=self.further)

    @cached_property
    def estimate(self) -> Estimate | None:
        """The mean of the sound scores, and how sure it is; None for none."""
        return self.sound.whole

    @cached_property
    def whole(self) -> Estimate | None:
        """The mean over all seeds; None for none. How sure it is holds only if no seed fails."""
        if not self.values:
            return None
        scale, values = self.scale, list(self.values.values())
        floor, ends, overlap = scale.rounding, (scale.low, scale.high), scale.overlap
        twin = None
        if scale.logits:
            on = [scale.logits.of(value) for value in values]
            twin = estimate(on, floor / scale.logits.slope(fmean(on)), logits=scale.logits, overlap=overlap)
        over_seeds = estimate(values, floor, ends, twin=twin, overlap=overlap)
        return over_draws(over_seeds, drawn([self], [1.0], [*self.values]))

    @property
    def mean(self) -> float | None:
        """The mean over the answered seeds, also those that do not learn."""
        return fmean(self.values.values()) if self.values else None

    @property
    def std(self) -> float | None:
        """The standard deviation over the answered seeds (n - 1)."""
        return stdev(self.values.values()) if self.n > 1 else None

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the sound scores; None for fewer than three."""
        return self.estimate.interval() if self.estimate else None

    @property
    def above_chance(self) -> bool:
        """True if the mean is above what guessing reaches, and its interval or every seed is above chance.

        A model that always gives the same answer has one score for all seeds, a little off chance: no interval over
        seeds can see that, the number of images can.
        """
        if self.mean is None or self.mean <= self.scale.chance + self.scale.luck:
            return False
        sure = self.interval is not None and self.interval[0] > self.scale.chance
        return sure or min(self.values.values()) > self.scale.chance + self.scale.luck

    @property
    def any_above_chance(self) -> bool:
        """True if at least one seed scores above what guessing reaches."""
        return any(value > self.scale.chance + self.scale.luck for value in self.values.values())

    @property
    def split(self) -> bool:
        """True if the seeds lie in two groups far apart, so that their mean describes neither."""
        return bool(self._lower)

    @cached_property
    def _lower(self) -> frozenset[int]:
        """The seeds of the lower group where seeds split in two; none if they do not."""
        order = sorted(self.values, key=lambda seed: self.values[seed])
        if len(order) < FEWEST or not math.isfinite(self.scale.high):
            return frozenset()
        values = [self.values[seed] for seed in order]
        gap, place = max((after - before, place) for place, (before, after) in enumerate(pairwise(values)))
        widest = max(values[place] - values[0], values[-1] - values[place + 1])
        far = gap >= SPLIT_SHARE * (self.scale.high - self.scale.chance)
        return frozenset(order[: place + 1]) if far and gap >= SPLIT_RATIO * widest else frozenset()


def difference(who: Scores, than: Scores, among: Iterable[int] | None = None) -> Estimate | None:
    """Returns `who` minus `than`, paired over the seeds that learn in both; None for none.

    Source: the paired t-test. Differs: `contrast`.
    """
    return contrast((who, than), (1.0, -1.0), among)


def contrast(trials: Sequence[Scores], weights: Sequence[float], among: Iterable[int] | None = None) -> Estimate | None:
    """Returns the sum of weight times score, seed by seed, over the seeds that learn in all trials; None for none.

    `among`: the seeds that are compared, where not all are. Whether one learns is seen beside all seeds of its trial.
    Of accuracies the twin asks the same of the scores that belong to the mean logits; each seed stands for what its
    logits move that sum by (the delta method).
    Differs: `estimate`'s floor, here of so many rounded scores.
    """
    sounds = [trial.sound for trial in trials]
    known = [{*sound.values} for sound in sounds] + ([] if among is None else [{*among}])
    seeds = sorted(set.intersection(*known))
    if not seeds:
        return None
    parts = [(sound, weight) for sound, weight in zip(sounds, weights, strict=True) if weight]
    floor = math.hypot(*(weight * sound.scale.rounding for sound, weight in parts))
    overlap = max((sound.scale.overlap for sound, _ in parts), default=0.0)
    ends = [sorted((weight * sound.scale.low, weight * sound.scale.high)) for sound, weight in parts]
    sums = [sum(weight * sound.values[seed] for sound, weight in parts) for seed in seeds]
    twin = None
    if all(sound.scale.logits for sound, _ in parts):
        columns = [[weight * value for value in on_logits(sound, seeds)] for sound, weight in parts]
        twin = estimate([math.fsum(column) for column in zip(*columns, strict=True)], floor, overlap=overlap)
    limits = sum(low for low, _ in ends), sum(high for _, high in ends)
    over_seeds = estimate(sums, floor, limits, twin=twin, overlap=overlap)
    return over_draws(over_seeds, drawn([sound for sound, _ in parts], [weight for _, weight in parts], seeds))


def on_logits(scores: Scores, seeds: Sequence[int]) -> list[float]:
    """Returns a score for each seed; their mean is the score of the mean logit, their spread is that of the logits."""
    logits = scores.scale.logits
    assert logits is not None
    on = [logits.of(scores.values[seed]) for seed in seeds]
    center = fmean(on)
    return [logits.score(center) + logits.slope(center) * (logit - center) for logit in on]


def slope_weights(trials: int) -> list[float]:
    """Returns the weight of each score in the slope of a least-squares line; the trials lie at 0, 1, 2 and so on."""
    center = (trials - 1) / 2
    square = sum((place - center) ** 2 for place in range(trials))
    return [(place - center) / square for place in range(trials)]
