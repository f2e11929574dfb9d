"""Methods ranked over families of tasks: Friedman's test, and which methods differ by Nemenyi's test or by Holm's.

Pure. A family is one observation, as a data set is in Demsar's article: its tasks are alike, so they cannot count one
by one. Source: Demsar 2006, Statistical Comparisons of Classifiers over Multiple Data Sets (JMLR 7), 3.2.2 and 3.2.4.
Differs: methods that differ by less than the noise of their seeds share their ranks; ranks that are tied are not
corrected for, as there, which makes the tests careful; for few families and methods the p of Friedman's test is exact,
because that of F is too small there (3 methods in 3 families: 0.05 where 0.19 is right).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import permutations
from operator import add

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f, norm, studentized_range

from service.analysis.statistics import ALPHA, Adjusted, Interval, holm

FEWEST_METHODS, FEWEST_FAMILIES = 3, 3
"""How many methods a ranking needs, and how many families its tests need: two families can reject nothing."""
EXACT_METHODS, EXACT_FAMILIES = 5, 6
"""Up to so many methods and families all orders are counted. Cost: 0.3 s at most."""
NOISE = 2.0
"""How many standard errors of a difference, or how many steps of one image in each task, are noise."""
EQUAL = 1e-9
"""Means so near are equal: the same right answers, added in another order, differ in the last digit."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Friedman:
    """Friedman's test of whether all methods are alike: chi squared, Iman and Davenport's F, and the p-value."""

    chi2: float
    f: float
    p: float


@dataclass(frozen=True)
class Ranking:
    """The ranks of methods by family; 1 is the best, and methods within the noise share the mean of their ranks.

    `by_family`: for each family the rank of each method, by name; all families rank the same methods.
    """

    by_family: Mapping[str, Mapping[str, float]]

    @property
    def families(self) -> int:
        """How many families there are."""
        return len(self.by_family)

    @property
    def testable(self) -> bool:
        """Whether there are enough families for a test. With fewer there is no p-value, and no group is formed."""
        return self.families >= FEWEST_FAMILIES

    @property
    def differs(self) -> bool:
        """Whether Friedman's test says that not all methods are alike."""
        return self.testable and self.friedman.p < ALPHA

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean rank of each method, the best first."""
        names = next(iter(self.by_family.values()))
        found = {name: math.fsum(ranks[name] for ranks in self.by_family.values()) / self.families for name in names}
        return dict(sorted(found.items(), key=lambda item: item[1]))

    @cached_property
    def friedman(self) -> Friedman:
        """The test of all methods together."""
        k, n = len(self.means), self.families
        squares = math.fsum(mean**2 for mean in self.means.values())
        chi2 = max(0.0, 12 * n / (k * (k + 1)) * (squares - k * (k + 1) ** 2 / 4))
        left = n * (k - 1) - chi2
        alike = left <= 1e-9 * n * (k - 1)  # all families have the same ranks
        ratio = math.inf if alike else (n - 1) * chi2 / left
        if k <= EXACT_METHODS and n <= EXACT_FAMILIES:
            return Friedman(chi2, ratio, _exact_p([[*ranks.values()] for ranks in self.by_family.values()]))
        p = math.factorial(k) ** (1.0 - n) if alike else float(f.sf(ratio, k - 1, (k - 1) * (n - 1)))
        return Friedman(chi2, ratio, p)

    @property
    def error(self) -> float:
        """The standard error of the difference of two mean ranks, where all methods are alike."""
        k = len(self.means)
        return math.sqrt(k * (k + 1) / (6 * self.families))

    def intervals(self) -> dict[str, Interval]:
        """The 95 % interval of each method's mean rank over other families of the same kind; none of one family.

        All are as wide as for methods that are alike, as in the tests: the spread of a few ranks says too little. Of a
        method whose ranks differ much more between families than those of the others it is too narrow.
        Source: Friedman 1937 (the variance of a mean rank). Differs: the ends are cut to what a rank can be.
        """
        k = len(self.means)
        half = float(norm.ppf(1 - ALPHA / 2)) * math.sqrt((k * k - 1) / (12 * self.families))
        ends = {name: (max(1.0, mean - half), min(float(k), mean + half)) for name, mean in self.means.items()}
        return ends if self.families > 1 else {}

    def critical_difference(self, alpha: float = ALPHA) -> float:
        """How far apart two mean ranks must be for Nemenyi's test, which compares all methods with one another."""
        return _critical_range(alpha, len(self.means)) / math.sqrt(2) * self.error

    def groups(self, alpha: float = ALPHA) -> list[list[str]]:
        """The largest groups of methods that are not told apart, the best first; all where Friedman's test says so."""
        names = list(self.means)
        if self.friedman.p >= alpha:
            return [names]
        apart = self.critical_difference(alpha)
        found: list[list[str]] = []
        for place, first in enumerate(names):
            group = [name for name in names[place:] if self.means[name] - self.means[first] < apart]
            if len(group) > 1 and not (found and found[-1][-1] == group[-1]):
                found.append(group)
        return found

    def against(self, control: str) -> dict[str, Adjusted]:
        """The p-values of each other method's difference to one control, by Holm; about mean ranks, two-sided."""
        own = self.means[control]
        others = {name: mean for name, mean in self.means.items() if name != control}
        return holm({name: 2 * float(norm.sf(abs(mean - own) / self.error)) for name, mean in others.items()})


@cache
def _critical_range(alpha: float, methods: int) -> float:
    """What the range of so many means exceeds with a probability of alpha, where all are alike. Cost: 2 ms."""
    return float(studentized_range.ppf(1 - alpha, methods, math.inf))


def _exact_p(by_family: Sequence[Sequence[float]]) -> float:
    """The share of all orders, of each family for itself, whose rank sums differ at least as much as those found."""
    found = sum(sum(column) ** 2 for column in zip(*by_family, strict=True))
    states = _sums(tuple(sorted(tuple(sorted(ranks)) for ranks in by_family)))
    far = sum(count for sums, count in states.items() if sum(one * one for one in sums) >= found - 1e-9)
    return far / sum(states.values())


@lru_cache(maxsize=8)
def _sums(by_family: tuple[tuple[float, ...], ...]) -> dict[tuple[float, ...], int]:
    """The rank sums of all orders, of each family for itself, with the number of orders that lead to each.

    All that counts of the sums are their values, whichever method has them, so equal values in another order are one
    state. Without ties all families have the same ranks, so a size of table is counted once. Shapes: a row of ranks
    a family. Source: Friedman 1937. Differs: ties keep the ranks that they have. Cost: 0.3 s at most.
    """
    states: dict[tuple[float, ...], int] = {(0.0,) * len(by_family[0]): 1}
    for ranks in by_family:
        after: Counter[tuple[float, ...]] = Counter()
        for order in permutations(ranks):
            for sums, count in states.items():
                after[tuple(sorted(map(add, sums, order)))] += count
        states = after
    return states


def shared_ranks(means: Array, errors: Array, step: Array) -> Array:
    """The ranks of methods by their means, higher is better; methods within the noise share the mean of their ranks.

    From the best on, a new rank begins where a method lies below the first one of its group by more than the noise:
    `NOISE` standard errors of the difference of the two, or `NOISE` steps, whichever is more. So each method has one
    group, though it may differ less from a neighbor in the next group than from the first one of its own.
    Shapes: `means`, `errors` and the result (..., methods); `step` (...). Units: `step` is what one image in each task
    can change of a mean.
    """
    order = np.argsort(-means, axis=-1, kind="stable")
    mean, error = (np.take_along_axis(one, order, axis=-1) for one in (means, errors))
    starts = np.ones(means.shape, dtype=bool)
    best, its = mean[..., 0], error[..., 0]
    for place in range(1, means.shape[-1]):
        noise = np.maximum(NOISE * np.hypot(its, error[..., place]), NOISE * step)
        new = best - mean[..., place] > noise + EQUAL
        best, its = np.where(new, mean[..., place], best), np.where(new, error[..., place], its)
        starts[..., place] = new
    places = np.arange(1.0, means.shape[-1] + 1)
    first = np.maximum.accumulate(np.where(starts, places, 1), axis=-1)
    ends = np.where(np.roll(starts, -1, axis=-1), places, places[-1])
    last = np.minimum.accumulate(ends[..., ::-1], axis=-1)[..., ::-1]
    found = np.empty(means.shape)
    np.put_along_axis(found, order, (first + last) / 2, axis=-1)
    return found
