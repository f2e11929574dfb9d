"""The facts that a decision of the schedule writes: trials that are listed, choices that are made."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from search_spaces.roles import CONFIRMATIONS, POINTS, Role
from search_spaces.study import Edition, Search, Trial
from service.analysis.scores import validation_scores
from service.planning.forecast import parent_name
from service.planning.schedule import (
    Choose,
    Confirm,
    Decision,
    LeaveOut,
    PlanArms,
    Propose,
    Readmit,
    RegisterParent,
    Tune,
)
from service.planning.stopping import EarlyStopper
from service.storage.facts import Confirms, Exhausted, Fact, Planned, Readmitted, StoppedAt, Tuned
from service.storage.history import SETTLED, History
from trainables.recipe import Run
from trainables.recipe.outcome import Measurement

if TYPE_CHECKING:
    from service.planning.sampling import Sampler


class EarlyStops:
    """The early stopping of one study. `cutoff` must get every measurement of the journal, in order."""

    def __init__(self, edition: Edition, history: History) -> None:
        plan = edition.study.plan
        self.metric, self.history = edition.study.score.metric, history
        self._firsts: dict[str, tuple[Trial, Run]] = {}
        self._seen: set[tuple[str, int]] = set()
        stops = isinstance(plan, Search) and plan.stop is not None
        self._stoppers = {role: EarlyStopper(edition) for role in POINTS} if stops else {}
        self._split: set[Role] = set()
        self._looked_at: set[str] = set()

    def cutoff(self, key: str, code: str, measured: Measurement) -> float | None:
        """Returns the score that a run would have needed to go on, where it ends now; None if it goes on."""
        first = self._first(key) if self._stoppers else None
        value = measured.values.get(self.metric)
        if first is None or code != self.history.code(first[1]) or value is None:
            return None
        if (key, measured.epoch) in self._seen:  # trained again, because its answer was lost
            return None
        self._seen.add((key, measured.epoch))
        trial, run = first
        cutoff = self._stoppers[trial.role].report(trial.number, measured.epoch, value)
        if measured.epoch >= run.recipe.optimizer.epochs or self.history.state(run).answered:
            return None
        return None if cutoff is None or self._seeds_split(trial.role) else cutoff

    def _seeds_split(self, role: Role) -> bool:
        """Returns whether the seeds of some point that has ended lie in two groups.

        The seeds of each point are examined once, after it has ended.
        """
        for trial in [] if role in self._split else self.history.of(role):
            answer = self.history.answer(trial)
            if trial.label not in self._looked_at and answer.status in SETTLED:
                self._looked_at.add(trial.label)
                if validation_scores(self.history, trial, answer).split:
                    self._split.add(role)
        return role in self._split

    def _first(self, key: str) -> tuple[Trial, Run] | None:
        """Returns the trial and the run, where a key is that of the first seed of a point."""
        points = [trial for trial in self.history.trials if trial.role in POINTS]
        for trial in points[len(self._firsts) :]:
            first = self.history.first_run(trial)
            self._firsts.setdefault(first.key, (trial, first))
        return self._firsts.get(key)


class Decisions:
    """Turns the decisions of one study's schedule into facts."""

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
            case Readmit(run=run):
                return [Readmitted(run=run.key, code=history.code(run))]
            case Confirm(numbers=numbers, rivals=rivals):
                return [*_confirmations(history, (numbers, rivals)), Confirms(numbers=numbers, rivals=rivals)]


def _confirmations(history: History, numbers: tuple[tuple[int, ...], ...]) -> Iterator[Fact]:
    """Yields the confirmations of a search's own points and of its rivals that are not listed yet."""
    for points, fresh, wanted in zip(POINTS, CONFIRMATIONS, numbers, strict=True):
        known = {trial.number for trial in history.of(fresh)}
        for trial in [trial for trial in history.of(points) if trial.number in wanted]:
            if trial.number not in known:
                yield _planned(trial, fresh)


def _planned(trial: Trial, role: Role) -> Planned:
    return Planned(role=role, number=trial.number, name=trial.name, values=trial.values)
