"""The facts that a decision of the schedule writes, and those of an answer that is reused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from search_spaces.roles import CONFIRMATIONS, POINTS, Role
from search_spaces.study import Edition, Search, Trial
from service.analysis.scores import validation_scores
from service.planning.forecast import parent_name
from service.planning.schedule import (
    Assign,
    Choose,
    Confirm,
    Decision,
    Done,
    LeaveOut,
    MarkDiverged,
    PlanArms,
    Propose,
    Readmit,
    RegisterParent,
    Tune,
    Wait,
    next_action,
)
from service.planning.stopping import EarlyStopper
from service.storage.facts import (
    Adopted,
    Confirms,
    Ended,
    Exhausted,
    Fact,
    Measured,
    Planned,
    Readmitted,
    StoppedAt,
    Tuned,
)
from service.storage.history import SETTLED, History
from service.storage.outcomes import Answered
from service.storage.states import tuning_of
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


def adoption(run: Run, name: str, today: str) -> Adopted:
    """Returns the fact that an answer's code counts for a run. `name`, `today`: the digests of both codes."""
    return Adopted(run=run.key, code=None if name == today else name, instead_of=today)


def reused_facts(answer: Answered, early: EarlyStops) -> Iterator[Fact]:
    """Yields the facts of an answer that is there already. It is judged as it would have been when trained here.

    Each fact must be in the history before the next one is asked for.
    """
    key, code = answer.run.key, answer.name
    for measured in answer.outcome.curve:
        yield Measured(run=key, code=code, epoch=measured.epoch, values=measured.values)
        cutoff = early.cutoff(key, code, measured)
        if cutoff is not None:
            yield StoppedAt(run=key, code=code, epoch=measured.epoch, cutoff=cutoff)
            return
    yield Ended(run=key, code=code, outcome=answer.outcome.kind, epoch=answer.epoch, reused=True)


def look_ahead(history: History, find: Callable[[Run], Answered | None]) -> set[str]:
    """Adds to a history what its tuning proposes and chooses while the answers of other studies are there.

    Returns the keys of the runs that are reused so. `find`: returns the answer that counts, where one is there. TPE's
    points depend on answers, so none is proposed while a run is to be trained.
    """
    tune, reused, training = tuning_of(history.edition), set[str](), set[str]()
    if tune is None:  # an ablation's runs are known, and a search has points of its own in each edition
        return reused
    early, decisions = EarlyStops(history.edition, history), Decisions(history)
    while True:
        match next_action(history, training):
            case Assign(run=run):
                if answer := find(run):
                    reused.add(run.key)
                    if answer.name != history.code(run):
                        history.add(adoption(run, answer.name, history.today(run)))
                    for fact in reused_facts(answer, early):
                        history.add(fact)
                else:
                    training.add(run.key)
            case Wait() | Done() | MarkDiverged():
                return reused
            case Tune() if training and tune.sampler == "tpe":
                return reused
            case decision:
                for fact in decisions.facts(decision):
                    history.add(fact)


def _confirmations(history: History, numbers: tuple[tuple[int, ...], ...]) -> Iterator[Fact]:
    """Yields the confirmations of a search's own points and of its rivals that are not listed yet."""
    for points, fresh, wanted in zip(POINTS, CONFIRMATIONS, numbers, strict=True):
        known = {trial.number for trial in history.of(fresh)}
        for trial in [trial for trial in history.of(points) if trial.number in wanted]:
            if trial.number not in known:
                yield _planned(trial, fresh)


def _planned(trial: Trial, role: Role) -> Planned:
    return Planned(role=role, number=trial.number, name=trial.name, values=trial.values)
