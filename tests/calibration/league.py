"""Ranks over families of tasks where no method is better over families: how often a test still says so.

12 methods, 7 tasks, 3 seeds. The effect of a method on a task is one of its family and one of the task alone; `rho` is
the family's share of their variance. All families are drawn alike, so the mean rank of every method is 6.5 in truth,
but for the rows of methods that differ. Two families are never tested, so their share is 0; the intervals of
interquartile means have no bar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import norm, trim_mean

from service.analysis.league import Ranking, RunsOverTasks
from service.analysis.statistics import ALPHA, Scale, Scores
from tests.calibration.rows import Row, share

REPETITIONS = 1000
METHODS, SEEDS = tuple("abcdefghijkl"), 3
FAMILIES = {2: "AAAAAAB", 3: "AAAAABC", 5: "AAABCDE"}
"""By how many there are: the family of each of the seven tasks."""
RHOS = (0.0, 0.3, 0.5, 0.8)
EFFECT, NOISE = 0.1, 0.02
"""The standard deviations of a method's effect on a task, and of a seed."""
WITH_INTERVALS = 20
"""Every so many repetitions the intervals of interquartile means are computed; they take most of the time."""
STEPS = EFFECT / 4 * np.arange(len(METHODS))
"""By how much each method is worse than the first on every task, where methods differ."""
QUANTILES = norm.ppf((np.arange(999) + 0.5) / 999)
"""A normal distribution as so many equally probable values."""


def drawn(families: str, rho: float, draw: np.random.Generator) -> tuple[RunsOverTasks, np.ndarray]:
    """The runs of one study, and the true means. Shapes: (methods, tasks)."""
    shape = (len(METHODS), len(families))
    shared = {family: draw.normal(size=len(METHODS)) for family in sorted(set(families))}
    own = np.stack([shared[family] for family in families], axis=1)
    means = 0.5 + EFFECT * (np.sqrt(rho) * own + np.sqrt(1 - rho) * draw.normal(size=shape))
    values = means[..., None] + NOISE * draw.normal(size=(*shape, SEEDS))
    scale = Scale(0.0, -1.0, 1.0, 0.001)
    found = {
        f"{task}": {
            method: Scores(dict(enumerate(map(float, values[place, task]))), SEEDS, scale)
            for place, method in enumerate(METHODS)
        }
        for task in range(len(families))
    }
    return RunsOverTasks.of(found, {f"{task}": family for task, family in enumerate(families)}), means


def rejections(ranking: Ranking) -> tuple[bool, bool, bool]:
    """Whether Friedman's test rejects, Nemenyi's some pair, and Holm's some difference to a control."""
    if not ranking.testable:
        return False, False, False
    means = [*ranking.means.values()]
    nemenyi = means[-1] - means[0] >= ranking.critical_difference
    return ranking.differs, nemenyi, any(one.p < ALPHA for one in ranking.against(METHODS[0]).values())


def rows(repetitions: int) -> Iterator[Row]:
    """The share of studies with a false rejection, a row a test; and how often intervals hold the truth."""
    for count, families in FAMILIES.items():
        for rho in RHOS:
            draw = np.random.default_rng([count, round(10 * rho)])
            found, ranks, unlike, middles = [], [], [], []
            for place in range(repetitions):
                runs, means = drawn(families, rho, draw)
                ranks.append(runs.ranking())
                unlike.append(replace(runs, scores=runs.scores - STEPS[:, None, None]).ranking())
                found.append(rejections(ranks[-1]))
                if place % WITH_INTERVALS == 0:
                    middles += holds_middles(runs, means)
            what = f"{count} families, rho {rho:g}"
            tests = ("Friedman rejects", "Nemenyi tells some pair apart", "Holm tells some method from the control")
            for name, hits in zip(tests, zip(*found, strict=True), strict=True):
                yield share(f"{what}: {name}", hits, ALPHA)
            yield holding(what, ranks)
            yield holding(f"{what}, methods that differ", unlike)
            yield told(f"{what}: 95 % intervals of interquartile means do (no bar)", middles)


def holding(what: str, studies: Sequence[Ranking]) -> Row:
    """How often the intervals of mean ranks hold the truth, which is the mean over all studies."""
    truth = {name: np.mean([one.means[name] for one in studies]) for name in METHODS}
    ends = [(truth[name], *interval) for one in studies for name, interval in one.intervals().items()]
    hits = [bool(low <= own <= high) for own, low, high in ends]
    return share(f"{what}: 95 % intervals of mean ranks hold the truth", hits, 0.93, at_most=False)


def holds_middles(runs: RunsOverTasks, means: np.ndarray) -> list[bool]:
    """Whether the interval of each interquartile mean holds that of all seeds of the same tasks."""
    truths = [trim_mean((own[:, None] + NOISE * QUANTILES).ravel(), 0.25) for own in means]
    intervals = [one.interval or (np.nan, np.nan) for one in runs.interquartile_means().values()]
    return [bool(low <= truth <= high) for truth, (low, high) in zip(truths, intervals, strict=True)]


def told(what: str, hits: Sequence[bool]) -> Row:
    """A share without a bar."""
    return share(what, hits, 0.0, at_most=False)
