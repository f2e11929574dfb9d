"""The scores of a method over the tasks of an ablation, as those of one trial: by seed, so that claims can be judged.

Pure. The tasks are those of the study: nothing is said of others. A run counts where its seed learns on its task, as
everywhere (`statistics.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from service.analysis.statistics import Estimate, Scale, Scores, difference


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
