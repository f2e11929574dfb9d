"""The methods of an ablation over tasks: what each one scores on each task, and in the mean over families of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from statistics import fmean

from service.analysis.findings import Finding, finding
from service.analysis.format import fixed
from service.analysis.statistics import Scores

MOST = 3
"""How many methods a sentence names."""


def mean_over_families(means: Mapping[str, float], families: Mapping[str, str]) -> float:
    """Returns the mean over families of tasks: each family counts the same, and in it each task.

    `means`: by task; `families`: by task, where it is not one by itself.
    """
    by_family: dict[str, list[float]] = {}
    for task, mean in means.items():
        by_family.setdefault(families.get(task, task), []).append(mean)
    return fmean(map(fmean, by_family.values()))


@dataclass(frozen=True)
class Methods:
    """The methods of an ablation over tasks, by their names in the order of the study.

    `tasks`: by task, then by method, its test scores; a method that is not there was left out of the study. `families`:
    by task, where it is not one by itself.
    """

    names: tuple[str, ...]
    tasks: Mapping[str, Mapping[str, Scores]]
    families: Mapping[str, str]

    @cached_property
    def counted(self) -> list[str]:
        """The tasks that the means are over: on them every method has all its seeds."""
        return [
            task
            for task, scores in self.tasks.items()
            if {*scores} == {*self.names} and all(of_task.complete and of_task.n > 0 for of_task in scores.values())
        ]

    @property
    def left_out(self) -> list[str]:
        """The other tasks."""
        return [task for task in self.tasks if task not in self.counted]

    @property
    def in_families(self) -> bool:
        """Whether some of the tasks that count share a family."""
        return len({self.families.get(task, task) for task in self.counted}) < len(self.counted)

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean over families of each method, the highest first, of all its seeds; empty if no task counts."""
        means = {
            name: mean_over_families({task: self.tasks[task][name].mean or 0.0 for task in self.counted}, self.families)
            for name in self.names
            if self.counted
        }
        return dict(sorted(means.items(), key=lambda item: -item[1]))


def highest_mean(methods: Methods) -> Finding:
    """Returns which method has the highest mean, or which ones in the digits that are shown, and which one the next."""
    if not methods.means:
        return finding("headline.tasks unfinished")
    (best, *others) = [[*names] for _, names in groupby(methods.means, lambda name: fixed(methods.means[name]))]
    mean = methods.means[best[0]]
    if len(best) > 1:
        names = [finding("part.arm", name=name) for name in best[:MOST]]
        names += [finding("part.more methods", count=len(best) - MOST)] if len(best) > MOST else []
        return finding("headline.task means", names=names, mean=mean)
    after = others[0][0] if others else None
    return finding("headline.task mean", name=best[0], mean=mean, next=after, next_mean=methods.means.get(after or ""))
