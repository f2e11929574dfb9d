"""Methods ranked over tasks: Friedman's test, and which methods differ by Nemenyi's test or from a control by Holm's.

Pure. A task is a data set of its own: scores of one task are compared with one another alone, so tasks may have scores
of different kinds. Source: Demsar 2006, Statistical Comparisons of Classifiers over Multiple Data Sets (JMLR 7), 3.2.2
and 3.2.4. Differs: ranks that are tied are not corrected for, as there, which makes the tests careful; for few tasks
and methods the p of Friedman's test is exact, because that of F is too small there (3 methods on 3 tasks: 0.05 where
0.19 is right).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import permutations
from operator import add

from scipy.stats import f, norm, rankdata, studentized_range

from service.analysis.statistics import ALPHA, Adjusted, holm

FEWEST_METHODS, FEWEST_TASKS = 3, 3
"""What a ranking needs: of two methods there is but one difference, and two tasks reject nothing."""
EXACT_METHODS, EXACT_TASKS = 5, 6
"""Up to so many methods and tasks all orders are counted. Cost: 0.3 s at most."""


@dataclass(frozen=True)
class Friedman:
    """Friedman's test of whether all methods are alike: chi squared, Iman and Davenport's F, and the p-value."""

    chi2: float
    f: float
    p: float


@dataclass(frozen=True)
class Ranking:
    """The ranks of methods by task; 1 is the best, and methods with equal scores share the mean of their ranks.

    `by_task`: for each task the rank of each method, by name; all tasks rank the same methods.
    """

    by_task: Mapping[str, Mapping[str, float]]

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self.by_task)

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean rank of each method, the best first."""
        names = next(iter(self.by_task.values()))
        found = {name: math.fsum(ranks[name] for ranks in self.by_task.values()) / self.tasks for name in names}
        return dict(sorted(found.items(), key=lambda item: item[1]))

    @cached_property
    def friedman(self) -> Friedman:
        """The test of all methods together."""
        k, n = len(self.means), self.tasks
        squares = math.fsum(mean**2 for mean in self.means.values())
        chi2 = max(0.0, 12 * n / (k * (k + 1)) * (squares - k * (k + 1) ** 2 / 4))
        left = n * (k - 1) - chi2
        alike = left <= 1e-9 * n * (k - 1)  # all tasks have the same ranks
        ratio = math.inf if alike else (n - 1) * chi2 / left
        if k <= EXACT_METHODS and n <= EXACT_TASKS:
            return Friedman(chi2, ratio, _exact_p([[*ranks.values()] for ranks in self.by_task.values()]))
        p = math.factorial(k) ** (1.0 - n) if alike else float(f.sf(ratio, k - 1, (k - 1) * (n - 1)))
        return Friedman(chi2, ratio, p)

    @property
    def error(self) -> float:
        """The standard error of the difference of two mean ranks, where all methods are alike."""
        k = len(self.means)
        return math.sqrt(k * (k + 1) / (6 * self.tasks))

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


def _exact_p(by_task: Sequence[Sequence[float]]) -> float:
    """The share of all orders, of each task for itself, whose rank sums differ at least as much as those found."""
    found = sum(sum(column) ** 2 for column in zip(*by_task, strict=True))
    states = _sums(tuple(sorted(tuple(sorted(ranks)) for ranks in by_task)))
    far = sum(count for sums, count in states.items() if sum(one * one for one in sums) >= found - 1e-9)
    return far / sum(states.values())


@lru_cache(maxsize=8)
def _sums(by_task: tuple[tuple[float, ...], ...]) -> dict[tuple[float, ...], int]:
    """The rank sums of all orders, of each task for itself, with the number of orders that lead to each.

    All that counts of the sums are their values, whichever method has them, so equal values in another order are one
    state. Without ties all tasks have the same ranks, so a size of table is counted once. Shapes: a row of ranks a
    task. Source: Friedman 1937. Differs: ties keep the ranks that they have. Cost: 0.3 s at most.
    """
    states: dict[tuple[float, ...], int] = {(0.0,) * len(by_task[0]): 1}
    for ranks in by_task:
        after: Counter[tuple[float, ...]] = Counter()
        for order in permutations(ranks):
            for sums, count in states.items():
                after[tuple(sorted(map(add, sums, order)))] += count
        states = after
    return states


DIGITS = 9
"""Means that agree in so many digits are equal: the same right answers, added in another order, differ in the last."""


def rank(scores: Mapping[str, Mapping[str, float]]) -> Ranking:
    """The ranking of methods by their scores on each task, higher is better. `scores`: by task, then by method."""
    found = {}
    for task, by_name in scores.items():
        places = rankdata([-round(value, DIGITS) for value in by_name.values()])
        found[task] = dict(zip(by_name, map(float, places), strict=True))
    return Ranking(found)
