"""What methods reach over several tasks: mean ranks over families, interquartile means, performance profiles.

Pure. Every interval is one of the stratified bootstrap: the seeds of a task and a method are drawn again among
themselves. The draws are the same each time. A measure needs three seeds for an interval (`FEWEST`), which is too
narrow: of 12 methods, 7 tasks and 3 seeds it holds the true interquartile mean in 84 to 88 % of cases
(`tests/calibration/league.py`).
Source: Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice (NeurIPS 34), 4, and
its library rliable 1.2.0. Differs: written here, for rliable needs arch before 8, which cannot be imported beside
pandas 3, and its draws come from numpy's global generator whatever seed it is given; 2,000 draws where it has 50,000
for means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import trim_mean

from service.analysis.estimates.ranks import Array, Ranking, shared_ranks
from service.analysis.statistics import ALPHA, FEWEST, Interval, Scores

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
    def of(cls, found: Mapping[str, Mapping[str, Scores]], families: Mapping[str, str]) -> RunsOverTasks:
        """The runs of methods that have all their seeds. `found`: by task, then by method; `families`: by task."""
        places: dict[str, list[int]] = {}
        for place, task in enumerate(found):
            places.setdefault(families[task], []).append(place)
        by_task = [[*by_method.values()] for by_method in found.values()]
        scale = by_task[0][0].scale
        errors = [[one.whole.error or 0.0 if one.whole else 0.0 for one in some] for some in by_task]
        return cls(
            tuple(next(iter(found.values()))),
            {family: tuple(tasks) for family, tasks in places.items()},
            np.array([[[*one.values.values()] for one in some] for some in by_task]).swapaxes(0, 1),
            np.array(errors).T,
            np.array([some[0].scale.step for some in by_task]),
            (scale.chance, scale.high),
        )

    @property
    def seeds(self) -> int:
        """How many seeds each method has on each task."""
        return int(self.scores.shape[2])

    def means(self, family: str) -> dict[str, float]:
        """The mean score of each method over the tasks of a family and their seeds."""
        means = self.scores[:, self.families[family]].mean(axis=(1, 2))
        return dict(zip(self.methods, map(float, means), strict=True))

    def ranking(self) -> Ranking:
        """The ranks of the methods in each family, by their mean scores over its tasks."""
        found = {}
        for family, tasks in self.families.items():
            errors = np.sqrt((self.errors[:, tasks] ** 2).sum(axis=1)) / len(tasks)
            means = np.array([*self.means(family).values()])
            ranks = shared_ranks(means, errors, self.steps[[*tasks]].mean())
            found[family] = dict(zip(self.methods, map(float, ranks), strict=True))
        return Ranking(found)

    def interquartile_means(self) -> dict[str, Measure]:
        """The mean of the middle half of each method's runs, over all tasks and seeds."""
        draw = np.random.default_rng(0)
        found = {}
        for method, scores in zip(self.methods, self.scores, strict=True):
            drawn = self._drawn_seeds(scores, draw).reshape(DRAWS, -1)
            found[method] = self._measure(_middle(scores.ravel()), _middle(drawn))
        return found

    def improvements(self, control: str) -> dict[str, Measure]:
        """The probability that a run of each other method scores above one of the control on the same task.

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
        """The performance profile of each method."""
        draw, thresholds = np.random.default_rng(0), np.linspace(*self.ends, THRESHOLDS)
        found = {}
        for method, scores in zip(self.methods, self.scores, strict=True):
            drawn = self._drawn_seeds(scores, draw).reshape(DRAWS, -1)
            shares = np.stack([(drawn > threshold).mean(axis=1) for threshold in thresholds], axis=1)
            low, high = np.quantile(shares, _ENDS, axis=0) if self.seeds >= FEWEST else (None, None)
            found[method] = Profile(thresholds, (scores.ravel() > thresholds[:, None]).mean(axis=1), low, high)
        return found

    def _drawn_seeds(self, scores: Array, draw: np.random.Generator) -> Array:
        """The scores of one method, with the seeds of each task drawn again. Shapes: (DRAWS, tasks, seeds)."""
        places = draw.integers(self.seeds, size=(DRAWS, *scores.shape))
        return np.take_along_axis(scores[None], places, axis=2)

    def _measure(self, value: Array, drawn: Array) -> Measure:
        return Measure(float(value), _intervals(drawn[:, None])[0] if self.seeds >= FEWEST else None)


_ENDS = (ALPHA / 2, 1 - ALPHA / 2)


def _intervals(drawn: Array) -> list[Interval]:
    """The interval of each column between its quantiles. Shapes: (DRAWS, columns)."""
    return [(float(low), float(high)) for low, high in np.quantile(drawn, _ENDS, axis=0).T]


def _middle(scores: Array) -> Array:
    """The mean without the lowest and the highest quarter, over the last axis."""
    return np.asarray(trim_mean(scores, 0.25, axis=-1))


def _above(who: Array, than: Array) -> Array:
    """The share of pairs in which `who` is above `than`, a tie as one half; the mean over tasks.

    Shapes: (..., tasks, seeds), without the last two in the result.
    """
    tasks = range(who.shape[-2])
    pairs = ((who[..., task, :, None], than[..., task, None, :]) for task in tasks)
    return np.asarray(np.mean([((one > two) + 0.5 * (one == two)).mean(axis=(-2, -1)) for one, two in pairs], axis=0))
