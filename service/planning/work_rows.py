"""What a study would train, trial by trial: how many runs are done, found among the answers, or missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from search_spaces.study import Ablation, Trial
from search_spaces.words import listed, plural
from service.planning.tuning import unplanned
from service.planning.unproposed import Unproposed
from service.storage.history import History, ancestors
from service.storage.tuned import tuning_of
from trainables.recipe import Run, Use

MOST = 12
"""How many arms that are still to be tuned have a row of their own."""

RunWork = Literal["done", "reused", "missing"]


@dataclass(frozen=True)
class WorkRow:
    """One trial: its runs that are done in this study, reused from the answers of others, and to be trained."""

    label: str
    name: str
    done: int = 0
    reused: int = 0
    missing: int = 0

    @property
    def counts(self) -> tuple[int, int, int]:
        """Done, reused, missing."""
        return self.done, self.reused, self.missing


def work_rows(history: History, work: Mapping[str, RunWork], ahead: Unproposed) -> tuple[WorkRow, ...]:
    """A row a trial, parents too. `work`: what is to be done for a run, by key."""
    rows = [_row(trial.label, _name(history, trial), [*history.asked(trial)], work) for trial in history.trials]
    rows += [_row(arm.label, arm.name, history.asked(arm), work) for arm in unlisted_arms(history)]
    rows += [_row("p", name, runs, work) for name, runs in _unlisted_parents(history).items()]
    if tuning_of(history.edition):
        rows += _tuning_rows(history)
    elif ahead.points:
        words = "points that the search proposes, and their confirmation, at most"
        rows.append(WorkRow("", words, missing=len(ahead.points)))
    if ahead.parents:
        rows.append(WorkRow("p", "parents of runs that are not proposed yet", missing=len(ahead.parents)))
    return tuple(rows)


def _tuning_rows(history: History) -> list[WorkRow]:
    """What tuning proposes, and the arms whose values it chooses."""
    tune, arms, ahead = tuning_of(history.edition), history.tuning.untuned_arms(), [*unplanned(history)]
    if len(arms) > MOST:
        rows = [WorkRow("", f"{len(arms)} arms, as tuned", missing=len(arms) * history.seeds)]
    else:
        rows = [WorkRow("", f"{name}, as tuned", missing=history.seeds) for name in arms]
    if not ahead or tune is None:
        return rows
    tuned = list(dict.fromkeys(one.arm for one in ahead))
    names = f"{len(tuned)} arms" if len(tuned) > MOST else listed(tuned)
    words = f"tuning of {names}, {plural(tune.trials, 'trial')} each"
    return [WorkRow("t", words, missing=len(ahead) * tune.seeds), *rows]


def _name(history: History, trial: Trial) -> str:
    """The name of a trial; behind it, that a choice was made by it and stays, though another code trained it."""
    kept = history.tuning.is_settled(trial) and not history.asked(trial)
    return f"{trial.name}, kept (other code)" if kept else trial.name


def _row(label: str, name: str, runs: list[Run], work: Mapping[str, RunWork]) -> WorkRow:
    found = [work.get(run.key) for run in runs]
    return WorkRow(label, name, *(found.count(one) for one in ("done", "reused", "missing")))


def unlisted_arms(history: History) -> list[Trial]:
    """The arms of an ablation that its journal does not list yet; of tuned arms, those whose values are fixed."""
    if not isinstance(history.edition.study.plan, Ablation):
        return []
    known = {trial.name for trial in history.of("trial")}
    return [arm for arm in history.tuning.known_arms() if arm.name not in known]


def _unlisted_parents(history: History) -> dict[str, list[Run]]:
    """The runs that others need and that the journal does not list yet, by the name of their trial."""
    listed = {run.key for trial in history.trials for run in history.runs(trial).values()}
    found: dict[str, dict[str, Run]] = {}
    for trial in [*history.trials, *unlisted_arms(history)]:
        for run in history.asked(trial):
            for use, parent in run.parents.items():
                for one in [*ancestors(parent), parent]:
                    if one.key not in listed:
                        found.setdefault(parent_name(one, use), {})[one.key] = one
    return {name: list(runs.values()) for name, runs in found.items()}


def parent_name(parent: Run, use: Use) -> str:
    """The name of a parent's trial: its encoding, its data, and whether it is a teacher."""
    data = parent.recipe.data
    name = f"{parent.recipe.encoding.label} on {getattr(data, 'task', data.kind)}"
    return f"teacher: {name}" if use == "teacher" else name
