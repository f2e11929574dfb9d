"""Scores over the number of training images: a power law for each seed, and the images that a level needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from search_spaces.words import short
from service.analysis.statistics import Estimate, Scale, Scores, estimate
from trainables.spec import digest

if TYPE_CHECKING:
    from service.analysis.trial_result import TrialResult

FEWEST_SIZES = 4
"""A curve needs this many sizes: a power law has three numbers, so it would fit any three sizes exactly."""
SIZES = ("data.train_size", "data.samples_per_class", "optimizer.epochs")
"""The fields that may differ between trials of one curve; epochs, because many studies fix the number of steps."""
LEVELS = (0.5, 0.9)
"""The levels for which the needed images are computed: shares of the way from chance to a perfect score."""
EXPONENTS = (0.01, 5.0)
"""The smallest and the largest exponent that `fit` tries."""


@dataclass(frozen=True)
class PowerLaw:
    """The law that a score is `limit` - `fall` * (size / `first`) ** -`exponent`; sizes are numbers of training images.

    `error` is the root of the mean squared residual.
    """

    limit: float
    fall: float
    exponent: float
    first: float
    error: float

    def at(self, size: float) -> float:
        """Returns the score that the law gives for `size` training images."""
        return self.limit - self.fall * math.pow(size / self.first, -self.exponent)

    def size_for(self, level: float) -> float:
        """Returns how many training images the score `level` needs; infinite if the law does not reach it."""
        if level >= self.limit:
            return math.inf
        return self.first * math.pow(self.fall / (self.limit - level), 1 / self.exponent)


def fit(sizes: Sequence[float], scores: Sequence[float], ceiling: float = math.inf) -> PowerLaw:
    """Returns the power law with the least squared error; its limit is at most `ceiling`, its fall at least 0.

    For a given exponent the other two numbers follow by linear least squares, so one number is searched.
    Source: Rosenfeld et al. 2020, A constructive prediction of the generalization error across scales. Differs: no
    term for the size of the model, and a score in place of an error.
    """
    from scipy.optimize import minimize_scalar

    first, count, mean_y = min(sizes), len(sizes), sum(scores) / len(sizes)

    def law(log_exponent: float) -> PowerLaw:
        """Returns the best law with this exponent: it fits a line to the scores over `x = ratio ** -exponent`."""
        exponent = math.exp(log_exponent)
        xs = [(size / first) ** -exponent for size in sizes]
        points, mean_x = [*zip(xs, scores, strict=True)], sum(xs) / count
        fall = -sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x in xs)
        limit = mean_y + fall * mean_x
        if limit > ceiling:
            limit = ceiling
            fall = sum(x * (limit - y) for x, y in points) / sum(x * x for x in xs)
        if fall < 0:
            limit, fall = min(mean_y, ceiling), 0.0
        error = math.sqrt(sum((y - limit + fall * x) ** 2 for x, y in points) / count)
        return PowerLaw(limit, fall, exponent, first, error)

    low, high = (math.log(end) for end in EXPONENTS)
    step = (high - low) / 100
    best = min((low + (high - low) * number / 100 for number in range(101)), key=lambda exponent: law(exponent).error)
    ends = (max(low, best - step), min(high, best + step))
    optimum = minimize_scalar(lambda x: law(x).error, bounds=ends, method="bounded", options={"xatol": 1e-10})
    return min(law(best), law(float(optimum.x)), key=lambda power_law: power_law.error)


@dataclass(frozen=True)
class Curve:
    """Trials that differ in the number of training images alone.

    `scores` has the scores at each number of training images; `numbers` has the trials' numbers in the same order.
    """

    name: str
    scores: Mapping[int, Scores]
    numbers: tuple[int, ...] = ()

    @cached_property
    def laws(self) -> dict[int, PowerLaw]:
        """The law of each seed that has a score at every size and diverged at none: chance is no point of a curve."""
        seeds = sorted(set.intersection(*({*scores.values} - {*scores.diverged} for scores in self.scores.values())))
        rows = {seed: [scores.values[seed] for scores in self.scores.values()] for seed in seeds}
        return {seed: fit([*self.scores], row, self.scale.high) for seed, row in rows.items()}

    @property
    def scale(self) -> Scale:
        """The scale of the scores (their chance and ends), which is the same at every size."""
        return next(iter(self.scores.values())).scale

    def over_seeds(self, name: str) -> Estimate | None:
        """Returns the mean over seeds of a number of the laws (`limit`, `exponent`, `error`); None without a law."""
        values = {seed: getattr(law, name) for seed, law in self.laws.items()}
        if name == "limit":  # a score as others are: limits that all are perfect have an interval, too
            return Scores(values, len(values), self.scale).estimate
        return estimate([*values.values()]) if values else None

    def level(self, share: float) -> float:
        """Returns the score that lies at this share of the way from chance to a perfect score."""
        return self.scale.chance + share * (self.scale.high - self.scale.chance)

    def needed(self, share: float) -> Needed | None:
        """Returns how many images each seed needs to reach `level(share)`; None if no seed has a law."""
        sizes = [law.size_for(self.level(share)) for law in self.laws.values()]
        return Needed(tuple(sizes), min(self.scores), max(self.scores)) if sizes else None


@dataclass(frozen=True)
class Needed:
    """How many training images each seed needs to reach a level: `sizes` has one number for each seed.

    `least` and `most` are the smallest and the largest number that was tried; nothing is known beyond them.
    """

    sizes: tuple[float, ...]
    least: int
    most: int

    @property
    def beyond(self) -> int:
        """How many seeds do not reach the level with the most images that were tried."""
        return sum(size > self.most for size in self.sizes)

    @property
    def below(self) -> int:
        """How many seeds are above the level with the fewest images that were tried."""
        return sum(size < self.least for size in self.sizes)

    @property
    def estimate(self) -> Estimate | None:
        """The mean over seeds of the logarithm of `sizes`; None if a size lies outside of the numbers tried."""
        return None if self.beyond or self.below else estimate([math.log(size) for size in self.sizes])


def by_size(trials: Iterable[TrialResult]) -> list[list[TrialResult]]:
    """Returns groups of trials that differ only in the number of training images, sorted by this number.

    A group has at least four numbers of images, and one trial for each.
    """
    groups: dict[str, list[TrialResult]] = {}
    for row in trials:
        fields = row.recipe.plain()
        for path in SIZES:
            node, _, field = path.partition(".")
            fields[node].pop(field, None)
        groups.setdefault(digest(fields), []).append(row)
    ordered = [sorted(rows, key=_size) for rows in groups.values()]
    return [rows for rows in ordered if len(rows) >= FEWEST_SIZES and len({_size(row) for row in rows}) == len(rows)]


def curves(groups: Iterable[Sequence[TrialResult]]) -> list[Curve]:
    """Returns a curve for each group of `by_size` in which at least four trials have test scores."""
    groups = list(groups)
    scored = [[row for row in rows if row.test.values] for rows in groups]
    return [
        Curve(name, {_size(row): row.test for row in rows}, tuple(row.trial.number for row in rows))
        for rows, name in zip(scored, _names(groups), strict=True)
        if len(rows) >= FEWEST_SIZES
    ]


def _size(row: TrialResult) -> int:
    """Returns the number of training images of a trial."""
    return row.recipe.data.image_counts.train


def _names(groups: Sequence[Sequence[TrialResult]]) -> list[str]:
    """Returns a name for each group: `fourier` for `fourier, 500` and `fourier, 1000`, the words that these share.

    If these words do not tell the groups apart, the name is made of the values that the trials share.
    """
    names = []
    for rows in groups:
        first, *others = [row.name.split() for row in rows]
        names.append(" ".join(word for word in first if all(word in other for other in others)).strip(", "))
    if all(names) and len(set(names)) == len(names):
        return names
    values = [rows[0].trial.values for rows in groups]
    return [short({path: value for path, value in each.items() if path not in SIZES}) for each in values]
