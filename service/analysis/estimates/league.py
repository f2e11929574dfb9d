"""The league of an ablation over tasks: its methods ranked over families of tasks, and what each one scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from search_spaces.words import listed, plural, quoted
from service.analysis.estimates.over_tasks import RunsOverTasks
from service.analysis.estimates.ranks import FEWEST_FAMILIES, FEWEST_METHODS, Ranking
from service.analysis.format import p_text

if TYPE_CHECKING:
    from service.analysis.trial_result import TrialResult

MOST = 3
"""How many methods a sentence names."""


@dataclass(frozen=True)
class League:
    """The methods of an ablation over tasks. `control`: the one with which the others are compared.

    `arms`: by task, then by method, in the order of the study; an arm that is not there was left out of the study.
    `families`: by task, the family. `runs`: those of the tasks on which every method has all its seeds; None where
    there is no such task, or where the methods are too few for a ranking.
    """

    control: str
    arms: dict[str, dict[str, TrialResult]]
    methods: tuple[str, ...]
    families: dict[str, str]
    runs: RunsOverTasks | None

    @cached_property
    def ranking(self) -> Ranking | None:
        """The ranks over the families of the tasks that count; None where nothing is ranked."""
        return self.runs.ranking() if self.runs else None

    @property
    def counted(self) -> list[str]:
        """The tasks that are ranked."""
        return [task for task, found in self.arms.items() if self.runs is not None and _whole(found, self.methods)]

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
        """The largest groups of methods that are not told apart; none where nothing is tested."""
        return self.ranking.groups() if self.ranking and self.ranking.testable else []


def league(plan: Ablation, rows: Iterable[TrialResult]) -> League:
    """The league of the arms of an ablation over tasks."""
    methods = tuple(plan.axes[plan.baseline_axis])
    arms = plan.by_task({row.name: row for row in rows})
    families = {task: plan.families.get(task, task) for task in arms}
    whole = {
        task: {name: found[name].test for name in methods} for task, found in arms.items() if _whole(found, methods)
    }
    enough = whole and len(methods) >= FEWEST_METHODS
    return League(plan.baseline, arms, methods, families, RunsOverTasks.of(whole, families) if enough else None)


def _whole(found: dict[str, TrialResult], methods: tuple[str, ...]) -> bool:
    """Whether every method has all its seeds on a task."""
    return {*found} == {*methods} and all(row.test.complete and row.test.n > 0 for row in found.values())


def _families(count: int) -> str:
    return "1 family" if count == 1 else f"{count} families"


def why_untested(found: League) -> str:
    """Why the ranks are not tested; empty where they are."""
    assert found.ranking is not None
    if found.ranking.testable:
        return ""
    some = _families(found.ranking.families)
    return f"No p-value: the tasks are of {some}, and a test needs {FEWEST_FAMILIES}."


def league_sentence(found: League) -> str:
    """Which method ranks best over the tasks, and how sure that is."""
    if len(found.methods) < FEWEST_METHODS:
        return f"No ranking: {plural(len(found.methods), 'method')}, and a ranking needs {FEWEST_METHODS}."
    ranking = found.ranking
    if ranking is None:
        return "No ranking yet: no task has all its runs."
    first, rest = found.order[0], found.alike
    best = [name for name in found.order if ranking.means[name] == ranking.means[first]]
    rest = [name for name in rest if name not in best]
    have, them = ("has", "it") if len(best) == 1 else ("share", "them")
    who = listed([quoted(name) for name in best])
    said = f"Over {found.over}, {who} {have} the best mean rank, {ranking.means[first]:.2f}"
    if not ranking.testable:
        return f"{said}. {why_untested(found)}"
    said += f" (Friedman's test p {p_text(ranking.friedman.p)})"
    if not ranking.differs:
        return f"{said}: no two of the {len(found.methods)} are told apart."
    if not rest:
        return f"{said}; Nemenyi's test tells {them} apart from all others."
    names = [quoted(name) for name in rest[:MOST]]
    more = [f"{len(rest) - MOST} more"] if len(rest) > MOST else []
    return f"{said}; Nemenyi's test does not tell {them} apart from {listed([*names, *more])}."
