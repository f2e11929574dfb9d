"""The scores of a trial by seed, with the scale that its data give them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from search_spaces.study import Trial
from service.analysis.statistics import Estimate, Scale, Scores, difference
from service.storage.history import History
from service.storage.states import TrialAnswer
from trainables.data import Data
from trainables.data.dataset import SplitName


def score_scale(data: Data, split: SplitName) -> Scale:
    """What a score on a split can be: accuracy comes in steps of one image, R² has no lower end."""
    if data.metric == "r2":
        return Scale(data.chance(split), high=1.0, overlap=data.overlap)
    low = data.score(0.0, split)
    return Scale(data.chance(split), low, 1.0, (1 - low) * data.step(split), overlap=data.overlap)


def diverged_seeds(history: History, trial: Trial) -> frozenset[int]:
    """The seeds of a trial that diverged."""
    return frozenset(seed for seed, run in history.runs(trial).items() if history.state(run).status == "diverged")


def scores_of(
    trial: Trial, split: SplitName, finals: Mapping[int, float | None], diverged: frozenset[int], asked: int
) -> Scores:
    """The scores of a trial on a split, in the order of its seeds; a diverged one at chance.

    `finals`: the last score of each seed that completed; a seed without one is left out. `asked`: how many seeds there
    should be.
    """
    data = trial.recipe.data
    known = {seed: value for seed, value in finals.items() if value is not None}
    values = dict(sorted((known | dict.fromkeys(diverged, data.chance(split))).items()))
    return Scores(values, asked, score_scale(data, split), diverged)


def validation_scores(history: History, trial: Trial, answer: TrialAnswer | None = None) -> Scores:
    """The validation scores of a trial's answered seeds, a diverged one at chance."""
    found = answer or history.answer(trial)
    scale = score_scale(trial.recipe.data, "val")
    return Scores(dict(found.values), found.asked, scale, diverged_seeds(history, trial))


@dataclass(frozen=True, kw_only=True)
class ScoresOverTasks(Scores):
    """The mean over tasks of one method's scores, by seed. `tasks`: its scores on each; `shares`: what each counts.

    A run that does not learn is put at the mean of those of its task that do (`_filled`).
    """

    tasks: Mapping[str, Scores]
    shares: Mapping[str, float]

    @cached_property
    def learnt(self) -> frozenset[int]:
        """All seeds where some run learns: what runs that do not learn score is not in the values."""
        return frozenset(self.values if any(one.learnt for one in self.tasks.values()) else ())

    @property
    def cells(self) -> list[tuple[float, Scores]]:
        """The scores on each task, with what they count."""
        return [(self.shares[task], one) for task, one in self.tasks.items()]

    @property
    def fewest(self) -> tuple[int, str]:
        """The number of seeds that learn on the task where fewest do, and the task."""
        return min((one.sound.n, task) for task, one in self.tasks.items())


def over_tasks(tasks: Mapping[str, Scores], families: Mapping[str, str]) -> ScoresOverTasks:
    """A method's scores over tasks: each family counts the same, and in it each task. `families`: by task."""
    names = [families.get(task, task) for task in tasks]
    shares = {task: 1 / len({*names}) / names.count(name) for task, name in zip(tasks, names, strict=True)}
    answered = [{*one.values} for one in tasks.values() if one.sound.n]
    seeds = sorted(set.intersection(*answered)) if len(answered) == len(tasks) else []
    parts = [(shares[task], _filled(one, seeds)) for task, one in tasks.items()]
    values = {seed: math.fsum(share * filled[seed] for share, filled in parts) for seed in seeds}
    scales = [(shares[task], one.scale) for task, one in tasks.items()]
    scale = Scale(
        math.fsum(share * one.chance for share, one in scales),
        math.fsum(share * one.low for share, one in scales),
        math.fsum(share * one.high for share, one in scales),
        math.hypot(*(share * one.step for share, one in scales)),
        overlap=max(one.overlap for _, one in scales),
    )
    fallen = frozenset().union(*(one.diverged for one in tasks.values()))
    asked = max(one.asked for one in tasks.values())
    return ScoresOverTasks(values, asked, scale, fallen, tasks=tasks, shares=shares)


def _filled(scores: Scores, seeds: list[int]) -> dict[int, float]:
    """A score for every seed, with the mean of the seeds that learn, and with a spread that gives the mean's own error.

    Of n seeds k learn; so that the spread of n values gives the error of a mean of k, they are moved away from their
    mean by the square root of n (n - 1) / (k (k - 1)).
    """
    own = {seed: value for seed, value in scores.sound.values.items() if seed in seeds}
    n, k = len(seeds), len(own)
    if k == n or not own:
        return own
    center = fmean(own.values())
    wider = math.sqrt(n * (n - 1) / (k * (k - 1))) if k > 1 else 1.0
    return {seed: center + wider * (own[seed] - center) if seed in own else center for seed in seeds}


def difference_over_tasks(who: ScoresOverTasks, than: ScoresOverTasks) -> Estimate | None:
    """`who` minus `than`, paired by seed, with the degrees of freedom of the task on which fewest seeds learn."""
    found = difference(who, than)
    if found is None:
        return None
    freedom = min(who.fewest[0], than.fewest[0], found.n) - 1
    return replace(found, df=freedom, twin=replace(found.twin, df=freedom) if found.twin else None)
