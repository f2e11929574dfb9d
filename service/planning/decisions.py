"""The facts that a decision of the schedule writes, and those of an answer that is reused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from search_spaces.roles import CONFIRMATIONS, POINTS, Role
from search_spaces.study import Trial
from service.planning.forecast import parent_name
from service.planning.schedule import (
    Choose,
    Confirm,
    Decision,
    LeaveOut,
    PlanArms,
    Propose,
    RegisterParent,
    Tune,
    next_choice,
    unplanned,
)
from service.storage.facts import Confirms, Ended, Exhausted, Fact, Measured, Planned, StoppedAt, Tuned, tuning_of
from service.storage.history import History
from service.storage.outcomes import Answered
from trainables.recipe import Run
from trainables.recipe.outcome import Measurement

if TYPE_CHECKING:
    from service.planning.sampling import Sampler


Cutoff = Callable[[str, str, Measurement], float | None]
"""The score that a run would have needed to go on, where it ends at a measurement of its key and code; None if not."""


class Decisions:
    """Turns the decisions of one study's schedule into facts. The sampler of its points is kept."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def _sampler(self) -> Sampler:
        from service.planning.sampling import Sampler  # Optuna, which an ablation does not need

        return Sampler(self.history)

    def facts(self, decision: Decision) -> list[Fact]:
        """Returns the facts to write, in order."""
        history = self.history
        match decision:
            case RegisterParent(parent=parent, use=use):
                number, name = history.parents + 1, parent_name(parent, use)
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
                facts: list[Fact] = []
                for points, fresh, chosen in zip(POINTS, CONFIRMATIONS, (numbers, rivals), strict=True):
                    left = {*chosen} - {trial.number for trial in history.of(fresh)}
                    facts += [_planned(trial, fresh) for trial in history.of(points) if trial.number in left]
                return [*facts, Confirms(numbers=numbers, rivals=rivals)]


def _planned(trial: Trial, role: Role) -> Planned:
    return Planned(role=role, number=trial.number, name=trial.name, values=trial.values)


def reused_facts(answer: Answered, cutoff: Cutoff = lambda key, code, measured: None) -> Iterator[Fact]:
    """Yields the facts of an answer that is there already. It is judged as it would have been when trained here.

    Each fact must be in the history before the next one is asked for. `cutoff`: where early stopping ends a run.
    """
    key, code = answer.run.key, answer.name
    for measured in answer.outcome.curve:
        yield Measured(run=key, code=code, epoch=measured.epoch, values=measured.values)
        needed = cutoff(key, code, measured)
        if needed is not None:
            yield StoppedAt(run=key, code=code, epoch=measured.epoch, cutoff=needed)
            return
    yield Ended(run=key, code=code, outcome=answer.outcome.kind, epoch=answer.epoch, reused=True)


def look_ahead(history: History, find: Callable[[Run], Answered | None]) -> set[str]:
    """Adds to a history what its tuning proposes and chooses while the answers of other studies are there.

    Returns the keys of the runs that are reused so. `find`: returns the answer that counts, where one is there. TPE's
    points depend on answers, so an arm gets none while a run of it is to be trained. What an answer measured of time
    and memory is left out: it may be of another device.
    """
    tune, reused, training = tuning_of(history.edition), set[str](), set[str]()
    if tune is None:  # an ablation's runs are known, and a search has points of its own in each edition
        return reused
    decisions = Decisions(history)

    def play(trial: Trial, arm: str) -> None:
        for run in history.runs(trial).values():
            if not history.state(run).answered:
                answer = find(run)
                if answer is None:
                    training.add(arm)
                    return
                reused.add(run.key)
                for fact in reused_facts(answer):
                    if isinstance(fact, Measured):
                        costs = ("time/", "memory/")
                        values = {name: value for name, value in fact.values.items() if not name.startswith(costs)}
                        fact = fact.model_copy(update={"values": values})
                    history.add(fact)
            if history.state(run).status != "completed":
                return

    for trial in history.of("tuning"):
        if trial.tunes and not history.tuning.is_settled(trial):
            play(trial, trial.tunes[0])
    for point in [*unplanned(history)]:
        if point.arm not in training or tune.sampler != "tpe":
            for fact in decisions.facts(point):
                history.add(fact)
            play(history.trials[-1], point.arm)
    while choice := next_choice(history):
        for fact in decisions.facts(choice):
            history.add(fact)
    return reused
