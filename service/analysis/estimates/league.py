"""The league of an ablation over tasks: its methods ranked on each task, and what each property costs and scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from search_spaces.words import listed, plural, quoted
from service.analysis.estimates.ranks import FEWEST_METHODS, FEWEST_TASKS, Ranking, rank
from service.analysis.format import p_text
from service.analysis.statistics import ALPHA

if TYPE_CHECKING:
    from service.analysis.trial_result import TrialResult

MOST = 3
"""How many methods a sentence names."""


@dataclass(frozen=True)
class League:
    """The methods of an ablation over tasks. `control`: the one with which the others are compared.

    `arms`: by task, then by method, in the order of the study; an arm that is not there was left out of the study.
    `ranking`: over the tasks on which every method has all its seeds; None where these are too few.
    """

    control: str
    arms: dict[str, dict[str, TrialResult]]
    methods: tuple[str, ...]
    ranking: Ranking | None

    @property
    def left_out(self) -> list[str]:
        """The tasks that are not ranked, because a method lacks a seed there, or the study leaves it out there."""
        return [task for task in self.arms if self.ranking is None or task not in self.ranking.by_task]

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
        """The largest groups of methods that are not told apart; none where nothing is ranked."""
        return self.ranking.groups() if self.ranking else []


def league(plan: Ablation, rows: Iterable[TrialResult]) -> League:
    """The league of the arms of an ablation over tasks."""
    methods = tuple(plan.axes[plan.baseline_axis])
    arms: dict[str, dict[str, TrialResult]] = {task: {} for task in plan.axes[plan.tasks]}
    for row in rows:
        names = plan.combination(row.name)
        arms[names[plan.tasks]][names[plan.baseline_axis]] = row
    whole = {
        task: found for task, found in arms.items() if {*found} == {*methods} and all(map(_has_all, found.values()))
    }
    enough = len(whole) >= FEWEST_TASKS and len(methods) >= FEWEST_METHODS
    scores = {task: {name: found[name].test.mean or 0.0 for name in methods} for task, found in whole.items()}
    return League(plan.baseline, arms, methods, rank(scores) if enough else None)


def _has_all(row: TrialResult) -> bool:
    return row.test.complete and row.test.n > 0


def league_sentence(found: League) -> str:
    """Which method ranks best over the tasks, and how sure that is."""
    if found.ranking is None and len(found.methods) < FEWEST_METHODS:
        return f"No ranking: {plural(len(found.methods), 'method')}, and a ranking needs {FEWEST_METHODS}."
    if found.ranking is None:
        some = any(_has_all(row) for rows in found.arms.values() for row in rows.values())
        need = f"fewer than {FEWEST_TASKS} tasks have all their runs" if some else "no task has all its runs"
        return f"No ranking yet: {need}."
    ranking = found.ranking
    first, rest = found.order[0], found.alike
    test = f"Friedman's test p {p_text(ranking.friedman.p)}"
    best = [name for name in found.order if ranking.means[name] == ranking.means[first]]
    rest = [name for name in rest if name not in best]
    have, them = ("has", "it") if len(best) == 1 else ("share", "them")
    who = listed([quoted(name) for name in best])
    said = f"Over {ranking.tasks} tasks, {who} {have} the best mean rank, {ranking.means[first]:.2f} ({test})"
    if ranking.friedman.p >= ALPHA:
        return f"{said}: no two of the {len(found.methods)} are told apart."
    if not rest:
        return f"{said}; Nemenyi's test tells {them} apart from all others."
    names = [quoted(name) for name in rest[:MOST]]
    more = [f"{len(rest) - MOST} more"] if len(rest) > MOST else []
    return f"{said}; Nemenyi's test does not tell {them} apart from {listed([*names, *more])}."
