"""The league of an ablation over tasks: its methods ranked over families of tasks, and what each one scores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import permutations
from operator import add
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f, norm, studentized_range, trim_mean

from search_spaces.study import Ablation
from search_spaces.words import listed, plural, quoted
from service.analysis.format import p_text
from service.analysis.multiple_testing import Adjusted, holm
from service.analysis.statistics import ALPHA, FEWEST, Interval, Scores

if TYPE_CHECKING:
    from service.analysis.trial_result import TrialResult


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

    `by_family`: for each family the rank of each method, by name; all families rank the same methods. `level`: that
    of the tests.
    """

    by_family: Mapping[str, Mapping[str, float]]
    level: float = ALPHA

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
        return self.testable and self.friedman.p < self.level

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean rank of each method, the best first."""
        names = next(iter(self.by_family.values()))
        means = {name: math.fsum(ranks[name] for ranks in self.by_family.values()) / self.families for name in names}
        return dict(sorted(means.items(), key=lambda item: item[1]))

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
        """Returns the 95 % interval of each method's mean rank over other families of the same kind.

        None of one family.

        All are as wide as for methods that are alike, as in the tests: the spread of a few ranks says too little. Of a
        method whose ranks differ much more between families than those of the others it is too narrow.
        Source: Friedman 1937 (the variance of a mean rank). Differs: the ends are cut to what a rank can be.
        """
        k = len(self.means)
        half = float(norm.ppf(1 - ALPHA / 2)) * math.sqrt((k * k - 1) / (12 * self.families))
        ends = {name: (max(1.0, mean - half), min(float(k), mean + half)) for name, mean in self.means.items()}
        return ends if self.families > 1 else {}

    @property
    def critical_difference(self) -> float:
        """How far apart two mean ranks must be in Nemenyi's test, which compares all pairs of methods."""
        return _critical_range(self.level, len(self.means)) / math.sqrt(2) * self.error

    def groups(self) -> list[list[str]]:
        """Returns the largest groups of methods that are not told apart, the best first.

        All where Friedman's test says so.
        """
        names = list(self.means)
        if self.friedman.p >= self.level:
            return [names]
        apart = self.critical_difference
        groups: list[list[str]] = []
        for place, first in enumerate(names):
            group = [name for name in names[place:] if self.means[name] - self.means[first] < apart]
            if len(group) > 1 and not (groups and groups[-1][-1] == group[-1]):
                groups.append(group)
        return groups

    def against(self, control: str) -> dict[str, Adjusted]:
        """Returns the p-values of each other method's difference to one control, by Holm.

        About mean ranks, two-sided.
        """
        own = self.means[control]
        others = {name: mean for name, mean in self.means.items() if name != control}
        return holm(
            {name: 2 * float(norm.sf(abs(mean - own) / self.error)) for name, mean in others.items()}, self.level
        )


@cache
def _critical_range(alpha: float, methods: int) -> float:
    """Returns what the range of so many means exceeds with a probability of alpha, where all are alike. Cost: 2 ms."""
    return float(studentized_range.ppf(1 - alpha, methods, math.inf))


def _exact_p(by_family: Sequence[Sequence[float]]) -> float:
    """Returns the share of all orders, in each family apart, whose rank sums differ at least as much as those found."""
    observed = sum(sum(column) ** 2 for column in zip(*by_family, strict=True))
    states = _sums(tuple(sorted(tuple(sorted(ranks)) for ranks in by_family)))
    far = sum(count for sums, count in states.items() if sum(total * total for total in sums) >= observed - 1e-9)
    return far / sum(states.values())


@lru_cache(maxsize=8)
def _sums(by_family: tuple[tuple[float, ...], ...]) -> dict[tuple[float, ...], int]:
    """Returns the rank sums of all orders, of each family for itself, with the number of orders that lead to each.

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
    """Returns the ranks of methods by their means, higher is better.

    Methods within the noise share the mean of their ranks.

    From the best on, a new rank begins where a method lies below the first one of its group by more than the noise:
    `NOISE` standard errors of the difference of the two, or `NOISE` steps, whichever is more. So each method has one
    group, though it may differ less from a neighbor in the next group than from the first one of its own.
    Shapes: `means`, `errors` and the result (..., methods); `step` (...). Units: `step` is what one image in each task
    can change of a mean.
    """
    order = np.lexsort((-errors, -means.round(9)), axis=-1)  # of equal means the least sure one, not the first listed
    mean, error = (np.take_along_axis(values, order, axis=-1) for values in (means, errors))
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
    ranks = np.empty(means.shape)
    np.put_along_axis(ranks, order, (first + last) / 2, axis=-1)
    return ranks


DRAWS = 2000
"""How often a bootstrap draws. Cost: each measure draws so many times methods x tasks x seeds numbers: all three take
0.15 s for 12 methods, 7 tasks and 3 seeds, 1.5 s and 40 MiB for 30 methods, 20 tasks and 10 seeds."""
THRESHOLDS = 101
"""At how many thresholds a profile is computed, from chance to a perfect score."""


@dataclass(frozen=True)
class Measure:
    """A number with its 95 % bootstrap interval; None for fewer than three seeds."""

    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Profile:
    """A performance profile: at each threshold, the share of a method's runs that score above it.

    `low`, `high`: the ends of the 95 % interval of each share; None for fewer than three seeds.
    """

    thresholds: Array
    shares: Array
    low: Array | None
    high: Array | None


@dataclass(frozen=True)
class RunsOverTasks:
    """The test scores of methods on tasks, a score a run, with the family of each task. Seeds that fail count.

    All scores of a study have one scale: its data sets have one metric and one chance, or skill, which is 0 at chance
    and 1 at a perfect score for each of them (`DatasetSpec.skill`). So means over tasks can be taken. `families`: by
    family, the places of its tasks. `ends`: chance and a perfect score.
    Shapes: `scores` (methods, tasks, seeds); `errors`, the standard errors of the means over seeds (methods, tasks);
    `steps`, what one image changes (tasks).
    """

    methods: tuple[str, ...]
    families: Mapping[str, tuple[int, ...]]
    scores: Array
    errors: Array
    steps: Array
    ends: Interval

    @classmethod
    def of(cls, scores: Mapping[str, Mapping[str, Scores]], families: Mapping[str, str]) -> RunsOverTasks:
        """Returns the runs of methods that have all their seeds.

        `scores`: by task, then by method; `families`: by task.
        """
        places: dict[str, list[int]] = {}
        for place, task in enumerate(scores):
            places.setdefault(families[task], []).append(place)
        by_task = [[*by_method.values()] for by_method in scores.values()]
        scale = by_task[0][0].scale
        # over seeds alone: all methods are tested on the same images, so other draws of these are no noise between them
        alone = [[replace(of_method, further={}).whole for of_method in some] for some in by_task]
        errors = [[whole.error or 0.0 if whole else 0.0 for whole in some] for some in alone]
        return cls(
            tuple(next(iter(scores.values()))),
            {family: tuple(tasks) for family, tasks in places.items()},
            np.array([[[*of_method.values.values()] for of_method in some] for some in by_task]).swapaxes(0, 1),
            np.array(errors).T,
            np.array([some[0].scale.step for some in by_task]),
            (scale.chance, scale.high),
        )

    @property
    def seeds(self) -> int:
        """How many seeds each method has on each task."""
        return int(self.scores.shape[2])

    def means(self, family: str) -> dict[str, float]:
        """Returns the mean score of each method over the tasks of a family and their seeds."""
        means = self.scores[:, self.families[family]].mean(axis=(1, 2))
        return dict(zip(self.methods, map(float, means), strict=True))

    def ranking(self, level: float = ALPHA) -> Ranking:
        """Returns the ranks of the methods in each family, by their mean scores over its tasks, to test at a level."""
        by_family = {}
        for family, tasks in self.families.items():
            errors = np.sqrt((self.errors[:, tasks] ** 2).sum(axis=1)) / len(tasks)
            means = np.array([*self.means(family).values()])
            ranks = shared_ranks(means, errors, self.steps[[*tasks]].mean())
            by_family[family] = dict(zip(self.methods, map(float, ranks), strict=True))
        return Ranking(by_family, level)

    def interquartile_means(self) -> dict[str, Measure]:
        """Returns the mean of the middle half of each method's runs, over all tasks and seeds."""
        draw = np.random.default_rng(0)
        means = {}
        for method, scores in zip(self.methods, self.scores, strict=True):
            drawn = self._drawn_seeds(scores, draw).reshape(DRAWS, -1)
            means[method] = self._measure(_middle(scores.ravel()), _middle(drawn))
        return means

    def improvements(self, control: str) -> dict[str, Measure]:
        """Returns the probability that a run of each other method scores above one of the control on the same task.

        Over all pairs of runs of a task, and then the mean over tasks; equal scores count as one half. Seeds are not
        paired, as in rliable.
        """
        draw = np.random.default_rng(0)
        own = self.scores[self.methods.index(control)]
        drawn = self._drawn_seeds(own, draw)
        return {
            method: self._measure(_above(scores, own), _above(self._drawn_seeds(scores, draw), drawn))
            for method, scores in zip(self.methods, self.scores, strict=True)
            if method != control
        }

    def profiles(self) -> dict[str, Profile]:
        """Returns the performance profile of each method."""
        draw, thresholds = np.random.default_rng(0), np.linspace(*self.ends, THRESHOLDS)
        profiles = {}
        for method, scores in zip(self.methods, self.scores, strict=True):
            drawn = self._drawn_seeds(scores, draw).reshape(DRAWS, -1)
            shares = np.stack([(drawn > threshold).mean(axis=1) for threshold in thresholds], axis=1)
            low, high = np.quantile(shares, _ENDS, axis=0) if self.seeds >= FEWEST else (None, None)
            profiles[method] = Profile(thresholds, (scores.ravel() > thresholds[:, None]).mean(axis=1), low, high)
        return profiles

    def _drawn_seeds(self, scores: Array, draw: np.random.Generator) -> Array:
        """Returns the scores of one method, with the seeds of each task drawn again. Shapes: (DRAWS, tasks, seeds)."""
        places = draw.integers(self.seeds, size=(DRAWS, *scores.shape))
        return np.take_along_axis(scores[None], places, axis=2)

    def _measure(self, value: Array, drawn: Array) -> Measure:
        return Measure(float(value), _intervals(drawn[:, None])[0] if self.seeds >= FEWEST else None)


_ENDS = (ALPHA / 2, 1 - ALPHA / 2)


def _intervals(drawn: Array) -> list[Interval]:
    """Returns the interval of each column between its quantiles. Shapes: (DRAWS, columns)."""
    return [(float(low), float(high)) for low, high in np.quantile(drawn, _ENDS, axis=0).T]


def _middle(scores: Array) -> Array:
    """Returns the mean without the lowest and the highest quarter, over the last axis."""
    return np.asarray(trim_mean(scores, 0.25, axis=-1))


def _above(who: Array, than: Array) -> Array:
    """Returns the share of pairs in which `who` is above `than`, a tie as one half; the mean over tasks.

    Shapes: (..., tasks, seeds), without the last two in the result.
    """
    tasks = range(who.shape[-2])
    pairs = ((who[..., task, :, None], than[..., task, None, :]) for task in tasks)
    return np.asarray(np.mean([((a > b) + 0.5 * (a == b)).mean(axis=(-2, -1)) for a, b in pairs], axis=0))


MOST = 3
"""How many methods a sentence names."""


@dataclass(frozen=True)
class League:
    """The methods of an ablation over tasks. `control`: the one with which the others are compared.

    `arms`: by task, then by method, in the order of the study; an arm that is not there was left out of the study.
    `families`: by task, the family. `runs`: those of the tasks on which every method has all its seeds; None if
    there is no such task, or where the methods are too few for a ranking. `level`: of the tests of ranks, that of the
    study's look.
    """

    control: str
    arms: dict[str, dict[str, TrialResult]]
    methods: tuple[str, ...]
    families: dict[str, str]
    runs: RunsOverTasks | None
    level: float

    @cached_property
    def ranking(self) -> Ranking | None:
        """The ranks over the families of the tasks that count; None if nothing is ranked."""
        return self.runs.ranking(self.level) if self.runs else None

    @property
    def counted(self) -> list[str]:
        """The tasks that are ranked."""
        return [task for task, results in self.arms.items() if self.runs is not None and _whole(results, self.methods)]

    @property
    def left_out(self) -> list[str]:
        """The tasks that are not ranked, because a method lacks a seed there, or the study leaves it out there."""
        return [task for task in self.arms if task not in self.counted]

    @property
    def over(self) -> str:
        """What the ranks are over, in words: `7 tasks`, `3 families of 7 tasks`."""
        tasks = plural(len(self.counted), "task")
        alone = all(self.families[task] == task for task in self.counted)
        return tasks if alone or self.runs is None else f"{_families(len(self.runs.families))} of {tasks}"

    @property
    def order(self) -> list[str]:
        """The methods, the best mean rank first; as the study lists them where nothing is ranked."""
        return list(self.ranking.means) if self.ranking else list(self.methods)

    @property
    def alike(self) -> list[str]:
        """The methods that are not told apart from the one with the best mean rank."""
        first = self.order[0]
        return [name for group in self.groups if first in group for name in group if name != first]

    @property
    def groups(self) -> list[list[str]]:
        """The largest groups of methods that are not told apart; none if nothing is tested."""
        return self.ranking.groups() if self.ranking and self.ranking.testable else []


def league(plan: Ablation, rows: Iterable[TrialResult], level: float) -> League:
    """Returns the league of the arms of an ablation over tasks. `level`: of its tests."""
    methods = tuple(plan.axes[plan.baseline_axis])
    arms = plan.by_task({row.name: row for row in rows})
    families = {task: plan.families.get(task, task) for task in arms}
    whole = {
        task: {name: results[name].test for name in methods}
        for task, results in arms.items()
        if _whole(results, methods)
    }
    enough = whole and len(methods) >= FEWEST_METHODS
    return League(plan.baseline, arms, methods, families, RunsOverTasks.of(whole, families) if enough else None, level)


def _whole(results: dict[str, TrialResult], methods: tuple[str, ...]) -> bool:
    """Returns whether every method has all its seeds on a task."""
    return {*results} == {*methods} and all(row.test.complete and row.test.n > 0 for row in results.values())


def _families(count: int) -> str:
    return "1 family" if count == 1 else f"{count} families"


def why_untested(standings: League) -> str:
    """Returns why the ranks are not tested; empty if they are."""
    assert standings.ranking is not None
    if standings.ranking.testable:
        return ""
    some = _families(standings.ranking.families)
    return f"No p-value: the tasks are of {some}, and a test needs {FEWEST_FAMILIES}."


def league_sentence(standings: League) -> str:
    """Returns which method ranks best over the tasks, and how sure that is."""
    if len(standings.methods) < FEWEST_METHODS:
        return f"No ranking: {plural(len(standings.methods), 'method')}, and a ranking needs {FEWEST_METHODS}."
    ranking = standings.ranking
    if ranking is None:
        return "No ranking yet: no task has all its runs."
    first, rest = standings.order[0], standings.alike
    best = [name for name in standings.order if ranking.means[name] == ranking.means[first]]
    rest = [name for name in rest if name not in best]
    have, them = ("has", "it") if len(best) == 1 else ("share", "them")
    who = listed([quoted(name) for name in best])
    sentence = f"Over {standings.over}, {who} {have} the best mean rank, {ranking.means[first]:.2f}"
    if not ranking.testable:
        return f"{sentence}. {why_untested(standings)}"
    sentence += f" (Friedman's test p {p_text(ranking.friedman.p)}, level {ranking.level:.3g})"
    if not ranking.differs:
        return f"{sentence}: no two of the {len(standings.methods)} are told apart."
    if not rest:
        return f"{sentence}; Nemenyi's test tells {them} apart from all others."
    names = [quoted(name) for name in rest[:MOST]]
    more = [f"{len(rest) - MOST} more"] if len(rest) > MOST else []
    return f"{sentence}; Nemenyi's test does not tell {them} apart from {listed([*names, *more])}."
