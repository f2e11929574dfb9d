"""The facts that a decision of the schedule writes: trials that are listed, choices that are made."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from search_spaces.roles import CONFIRMATIONS, POINTS, Role
from search_spaces.study import Trial
from service.planning.runs_ahead import parent_name
from service.planning.schedule import Confirm, LeaveOut, PlanArms, Propose, RegisterParent
from service.planning.tuning import Choose, Tune
from service.storage.history import History
from service.storage.journal import Confirms, Exhausted, Fact, Planned, StoppedAt, Tuned

if TYPE_CHECKING:
    from service.planning.search.sampling import Sampler

Decision = RegisterParent | PlanArms | Propose | Confirm | LeaveOut | Tune | Choose


class Decisions:
    """Turns the decisions of one study's schedule into facts."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def _sampler(self) -> Sampler:
        from service.planning.search.sampling import Sampler  # Optuna, which an ablation does not need

        return Sampler(self.history)

    def facts(self, decision: Decision) -> list[Fact]:
        """The facts to write, in order."""
        history = self.history
        match decision:
            case RegisterParent(parent=parent, use=use):
                number, name = len(history.of("parent")) + 1, parent_name(parent, use)
                return [Planned(role="parent", number=number, name=name, values={"key": parent.key})]
            case PlanArms(names=names):
                return [_planned(arm, "trial") for arm in history.tuning.known_arms() if arm.name in names]
            case Propose(number=number, role=role):
                values = self._sampler.propose(number, role)
                if values is None:
                    return [Exhausted(trials=number, rival=role == "rival")]
                return [_planned(history.edition.trial(number, values), role)]
            case Tune(arm=arm, number=number):
                point = self._sampler.propose_tuning(arm, number)
                name = history.edition.tuning_trial(arm, number, point).name
                return [Planned(role="tuning", number=number, name=name, values=point, tunes=arm)]
            case Choose(arm=arm, number=number):
                return [Tuned(arm=arm, number=number)]
            case LeaveOut(run=run, cutoff=cutoff):
                return [StoppedAt(run=run.key, code=history.code(run), epoch=0, cutoff=cutoff)]
            case Confirm(numbers=numbers, rivals=rivals):
                return [*_confirmations(history, (numbers, rivals)), Confirms(numbers=numbers, rivals=rivals)]


def _confirmations(history: History, numbers: tuple[tuple[int, ...], ...]) -> Iterator[Fact]:
    """The confirmations of a search's own points and of its rivals that are not listed yet."""
    for points, fresh, wanted in zip(POINTS, CONFIRMATIONS, numbers, strict=True):
        known = {trial.number for trial in history.of(fresh)}
        for trial in [trial for trial in history.of(points) if trial.number in wanted]:
            if trial.number not in known:
                yield _planned(trial, fresh)


def _planned(trial: Trial, role: Role) -> Planned:
    return Planned(role=role, number=trial.number, name=trial.name, values=trial.values)
