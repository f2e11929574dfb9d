"""Decides what a study does next from its history and its runs in flight, and turns each decision into facts.

One function serves search, ablation, resume and extension: unfinished runs first, then the next arm or a new point,
then the confirmation of a search's best trials on fresh seeds. In a search with early stopping, a point trains its
seeds one after another, each only while the point may still be among the best. The random rivals of a search come after
its own points, so that these are what they would be without rivals. An ablation with tuning tunes its arms first. No
run trains in two processes, because the runs in flight are known by key, also when two arms share a parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from search_spaces.roles import CONFIRMATIONS, CONFIRMED, POINTS, Role
from search_spaces.study import Trial
from service.planning.stopping import FEWEST, race_cutoff, racers, rounds
from service.storage.facts import Confirms, Ended, Exhausted, Fact, Measured, Planned, StoppedAt, Tuned
from service.storage.history import History
from service.storage.outcomes import Answered
from trainables.recipe import Run, Use
from trainables.recipe.outcome import Measurement

if TYPE_CHECKING:
    from service.planning.sampling import Sampler


@dataclass(frozen=True)
class Assign:
    """The action to train this run of this trial next."""

    run: Run
    trial: Trial


@dataclass(frozen=True)
class MarkDiverged:
    """The action to record this run as diverged without training it, because a parent of it diverged."""

    run: Run


@dataclass(frozen=True)
class RegisterParent:
    """The decision to list a parent run as a trial (p1, p2, ...). `use` says for what its child needs it."""

    parent: Run
    use: Use


@dataclass(frozen=True)
class Propose:
    """The decision to ask the sampler for the point of this number; for the role `rival`, for a random one."""

    number: int
    role: Role = "trial"


@dataclass(frozen=True)
class Tune:
    """The decision to ask the sampler for the point of this number that may tune this arm."""

    arm: str
    number: int


@dataclass(frozen=True)
class Choose:
    """The decision to give an arm the values of its tuning trial of this number.

    With None the arm keeps the values that the plan gives it, because every trial diverged.
    """

    arm: str
    number: int | None


@dataclass(frozen=True)
class PlanArms:
    """The decision to list these arms in the journal. A driver that was killed may have listed some of them already."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Confirm:
    """The decision to train these trials on fresh seeds, best first. `rivals` are the numbers of random points."""

    numbers: tuple[int, ...]
    rivals: tuple[int, ...] = ()


@dataclass(frozen=True)
class LeaveOut:
    """The decision not to train this run: to stay in the race, its point or arm would have needed the mean `cutoff`."""

    run: Run
    cutoff: float


@dataclass(frozen=True)
class Wait:
    """The action to wait: nothing can start until a run in flight ends."""


@dataclass(frozen=True)
class Done:
    """The action to end: nothing is left to do."""


Decision = RegisterParent | PlanArms | Propose | Confirm | LeaveOut | Tune | Choose
Action = Assign | MarkDiverged | Decision | Wait | Done


def next_action(history: History, in_flight: set[str]) -> Action:
    """Returns what a study does next. `in_flight` holds the keys of the runs that are being trained."""
    plan = history.edition.study.plan
    if plan.arms:
        if choice := next_choice(history):
            return choice
        listed, chosen = {trial.name for trial in history.of("trial")}, history.tuning.chosen
        names = [name for name in plan.arms if name not in listed and (plan.tune is None or name in chosen)]
        tuning = [trial for trial in history.of("tuning") if not history.tuning.is_settled(trial)]
        # Arms are compared when all are tuned. An arm whose trials all failed does not keep the other arms waiting.
        if names and not any(unplanned(history)) and all(history.answer(trial).status != "open" for trial in tuning):
            return PlanArms(tuple(names))
    for trial, run in _startable(history):
        action = _towards(history, trial, run, in_flight)
        if action is not None:
            cutoff = race_cutoff(history, trial, run)
            return action if cutoff is None else LeaveOut(run, cutoff)
    if plan.arms:
        return next(unplanned(history), None) or (Wait() if in_flight else Done())

    for role, count in zip(POINTS, (history.trial_count, history.rival_count), strict=True):
        if len(history.of(role)) < count:
            return Propose(len(history.of(role)), role)
    if any(history.answer(trial).status == "open" for role in POINTS for trial in history.unsettled(role)):
        return Wait()
    best = _best(history, "trial")
    numbers, first = list(best.values())[:CONFIRMED], history.of("trial")[0]
    if plan.first and history.answer(first).status != "incomplete":  # the point tried first is confirmed, too
        numbers.append(best.get(history.first_run(first).key, first.number))
    confirm = Confirm(tuple(dict.fromkeys(numbers)), tuple(_best(history, "rival").values())[:CONFIRMED])
    if confirm != Confirm(history.confirms, history.rival_confirms):
        return confirm
    return Wait() if in_flight else Done()


def next_choice(history: History) -> Choose | None:
    """Returns the choice for an arm whose tuning trials have all ended: the trial with the highest validation mean.

    It returns None if there is no such arm. An arm gets no choice if none of its trials completed, but one failed for a
    reason that is not its recipe's: the next command tries that trial again.
    """
    tune = history.edition.study.plan.tune
    for arm in history.tuning.untuned_arms():
        statuses = [history.answer(trial).status for trial in history.tuning.trials(arm)]
        if tune is None or len(statuses) < tune.trials or "open" in statuses:
            continue
        best = best_number(history, arm)
        if best is not None or set(statuses) == {"diverged"}:
            return Choose(arm, best)
    return None


def best_number(history: History, arm: str) -> int | None:
    """Returns the number of an arm's completed tuning trial with the highest validation mean.

    If means are equal, it returns the lowest number; if no trial completed, None.
    """
    answers = {trial.number: history.answer(trial) for trial in history.tuning.trials(arm)}
    means = [(answer.mean or 0.0, -number) for number, answer in answers.items() if answer.status == "completed"]
    return -max(means)[1] if means else None


def unplanned(history: History) -> Iterator[Tune]:
    """Yields the decisions for tuning trials that are not planned yet, in the order in which they will be planned."""
    tune = history.edition.study.plan.tune
    planned = {(trial.tunes and trial.tunes[0], trial.number) for trial in history.of("tuning")}
    for number in range(tune.trials if tune else 0):
        yield from (Tune(arm, number) for arm in history.tuning.untuned_arms() if (arm, number) not in planned)


def _startable(history: History) -> Iterator[tuple[Trial, Run]]:
    """Yields the runs that may start now, in order. A point's first seed must complete before its others start."""
    plan = history.edition.study.plan
    if plan.arms:
        for trial in history.of("tuning"):
            if not history.tuning.is_settled(trial):
                first, *others = history.runs(trial).values()
                yield trial, first
                if history.state(first).status == "completed":
                    yield from ((trial, run) for run in others)
        if plan.race:  # no arm is two seeds ahead of another: either may still leave the race
            yield from _by_seed(history, racers(history), max(rounds(history) + 2, FEWEST))
        else:
            yield from _by_seed(history, history.of("trial"))
        return
    for trial in (trial for role in POINTS for trial in history.unsettled(role)):
        first, *others = history.runs(trial).values()
        yield trial, first
        if history.state(first).status == "completed":
            left = [run for run in others if not history.state(run).answered and not history.given_up(run)]
            yield from ((trial, run) for run in (left[:1] if plan.stop else left))
    yield from _by_seed(history, [trial for role in CONFIRMATIONS for trial in history.confirmations(role)])


def _by_seed(history: History, trials: list[Trial], most: int | None = None) -> Iterator[tuple[Trial, Run]]:
    """Yields the run of each trial's first seed, then of each trial's second seed, and so on.

    So a study that is cut short has equally many seeds of all trials. `most` is how many seeds of each trial may begin;
    None sets no limit.
    """
    rows = [list(history.runs(trial).values()) for trial in trials]
    for runs in islice(zip(*rows, strict=True), most):
        yield from zip(trials, runs, strict=True)


def _towards(history: History, trial: Trial, run: Run, in_flight: set[str]) -> Action | None:
    """Returns the next action that leads to the answer of this run; None if nothing can be done for it now."""
    state = history.state(run)
    if (state.answered and not state.left_out) or run.key in in_flight or history.given_up(run):
        return None
    rows: list[tuple[Trial, Run]] = []
    for use, parent in run.parents.items():
        row = next((other for other in history.of("parent") if other.recipe == parent.recipe), None)
        if row is None:
            return RegisterParent(parent, use)
        rows.append((row, parent))
    statuses = {history.state(parent).status for _, parent in rows}
    if "diverged" in statuses:
        return MarkDiverged(run)
    if statuses <= {"completed"}:
        return Assign(run, trial)
    actions = (_towards(history, row, parent, in_flight) for row, parent in rows)
    return next((action for action in actions if action is not None), None)


def _best(history: History, role: Role) -> dict[str, int]:
    """Returns the numbers of a role's completed trials, best first, each recipe once, by the key of their first run."""
    best: dict[str, int] = {}
    for trial in history.highest(len(history.of(role)), role):
        best.setdefault(history.first_run(trial).key, trial.number)
    return best


def parent_name(parent: Run, use: Use) -> str:
    """Returns the name of a parent's trial: 'teacher' if it is one, its encoding, and its data."""
    data = parent.recipe.data
    name = f"{parent.recipe.encoding.label} on {getattr(data, 'task', data.kind)}"
    return f"teacher: {name}" if use == "teacher" else name


Cutoff = Callable[[str, str, Measurement], float | None]
"""A function of a run's key, its code digest and a measurement. It returns the score that the run would have needed to
go on, or None if it goes on."""


class Decisions:
    """Turns the decisions of one study into facts for its journal, with one sampler for all points."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def _sampler(self) -> Sampler:
        from service.planning.sampling import Sampler  # Optuna, which an ablation does not need

        return Sampler(self.history)

    def facts(self, decision: Decision) -> list[Fact]:
        """Returns the facts that a decision adds to the journal, in order."""
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
    """Yields the facts of an answer that is there already, as if its run were trained here: it may be stopped early.

    Each fact must be in the history before the next one is asked for. `cutoff` says where early stopping ends a run.
    """
    key, code = answer.run.key, answer.name
    for measured in answer.outcome.curve:
        yield Measured(run=key, code=code, epoch=measured.epoch, values=measured.values)
        needed = cutoff(key, code, measured)
        if needed is not None:
            yield StoppedAt(run=key, code=code, epoch=measured.epoch, cutoff=needed)
            return
    yield Ended(run=key, code=code, outcome=answer.outcome.kind, epoch=answer.epoch, reused=True)


def play_tuning(history: History, find: Callable[[Run], Answered | None]) -> set[str]:
    """Plays the tuning of arms forward with answers (stored outcomes of runs) that other studies have.

    It adds each tuning trial and each choice that follows from them to the history, and returns the keys of the runs
    whose answers were used. `find` returns the answer of a run if there is one, else None. TPE's points depend on
    answers, so an arm gets no point while a run of it is to be trained. Times and memory of an answer are left out:
    another device may have measured them.
    """
    tune, reused, training = history.edition.study.plan.tune, set[str](), set[str]()
    if tune is None:  # an ablation's runs are known, and a search has points of its own in each edition
        return reused
    decisions = Decisions(history)

    def play(trial: Trial, arm: str) -> None:
        """Adds the facts of a trial's stored answers to the history, up to the first run without one."""
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
