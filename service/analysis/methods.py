"""The methods of an ablation over tasks: what each one scores on each task, and in the mean over families of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from search_spaces.words import listed, plural, quoted
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
            if {*scores} == {*self.names} and all(one.complete and one.n > 0 for one in scores.values())
        ]

    @property
    def left_out(self) -> list[str]:
        """The other tasks."""
        return [task for task in self.tasks if task not in self.counted]

    @property
    def in_families(self) -> bool:
        """Whether some of the tasks that count share a family."""
        return self._family_count < len(self.counted)

    @property
    def _family_count(self) -> int:
        return len({self.families.get(task, task) for task in self.counted})

    @property
    def over(self) -> str:
        """What the means are over, in words: `7 tasks`, `7 tasks of 2 families`."""
        count = self._family_count
        families = f" of {'1 family' if count == 1 else f'{count} families'}" if self.in_families else ""
        return f"{plural(len(self.counted), 'task')}{families}"

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean over families of each method, the highest first, of all its seeds; empty if no task counts."""
        found = {
            name: mean_over_families({task: self.tasks[task][name].mean or 0.0 for task in self.counted}, self.families)
            for name in self.names
            if self.counted
        }
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def methods_sentence(methods: Methods, claims: bool) -> str:
    """Returns which method has the highest mean, and which one the next. `claims`: whether the study has claims."""
    shown = {name: fixed(mean) for name, mean in methods.means.items()}
    if not shown:
        return "No mean over tasks yet: no task has all its runs."
    (first, highest), *_ = shown.items()
    best, rest = ([name for name in shown if (shown[name] == highest) == same] for same in (True, False))
    more = [f"{len(best) - MOST} more"] if len(best) > MOST else []
    who = listed([*map(quoted, best[:MOST]), *more])
    sentence = f"Over {methods.over} {who} {'has' if best == [first] else 'share'} the highest mean, {highest}"
    follows = f"; {quoted(rest[0])} follows with {shown[rest[0]]}" if rest else ""
    return f"{sentence}{follows}.{' Claims below say which differences are tested.' * claims}"
