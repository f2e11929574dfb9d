"""What a study does next, and the facts that this writes: a history and the runs in flight give one action.

One function serves search, ablation, resume and extension: unfinished runs first, then the next arm or a new point,
then the confirmation of a search's best trials on fresh seeds. A point that is stopped early trains its seeds one after
another, each only while the point may still be among the best. The random rivals of a search come after its own points,
so that these are what they would be without rivals. An ablation whose arms are tuned begins with that. No run trains in
two processes, because the runs in flight are known by key; this holds also when two arms share a parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from search_spaces.roles import CONFIRMATIONS, CONFIRMED, POINTS, Role
from search_spaces.study import Ablation, Trial
from service.planning.stopping import FEWEST, race_cutoff, racers, rounds
from service.storage.facts import Confirms, Ended, Exhausted, Fact, Measured, Planned, StoppedAt, Tuned, tuning_of
from service.storage.history import History
from service.storage.outcomes import Answered
from trainables.recipe import Run, Use
from trainables.recipe.outcome import Measurement

if TYPE_CHECKING:
    from service.planning.sampling import Sampler


@dataclass(frozen=True)
class Assign:
    """Train this run next."""

    run: Run
    trial: Trial


@dataclass(frozen=True)
class MarkDiverged:
    """Record this run as diverged without training it, because a parent of it diverged."""

    run: Run


@dataclass(frozen=True)
class RegisterParent:
    """Register a parent run as a trial (p1, p2, ...). `use`: what its child needs it for."""

    parent: Run
    use: Use


@dataclass(frozen=True)
class Propose:
    """Ask the sampler for the point of this number; for the role `rival` a random one."""

    number: int
    role: Role = "trial"


@dataclass(frozen=True)
class Tune:
    """Ask the sampler for the point of this number that may tune an arm."""

    arm: str
    number: int


@dataclass(frozen=True)
class Choose:
    """Fix the values of an arm: those of the trial of this number; None: its own, because every trial diverged."""

    arm: str
    number: int | None


@dataclass(frozen=True)
class PlanArms:
    """List these arms of the ablation. Some are listed already where a driver was killed while it listed them."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Confirm:
    """Confirm these trials on fresh seeds, best first. `rivals`: those of the random points."""

    numbers: tuple[int, ...]
    rivals: tuple[int, ...] = ()


@dataclass(frozen=True)
class LeaveOut:
    """Do not train this run: its point cannot reach the mean `cutoff` of the best points any more."""

    run: Run
    cutoff: float


@dataclass(frozen=True)
class Wait:
    """Nothing can start until a run in flight ends."""


@dataclass(frozen=True)
class Done:
    """Nothing is left to do."""


Decision = RegisterParent | PlanArms | Propose | Confirm | LeaveOut | Tune | Choose
Action = Assign | MarkDiverged | Decision | Wait | Done


def next_action(history: History, in_flight: set[str]) -> Action:
    """Returns the next thing to do, given the keys of the runs in flight."""
    plan = history.edition.study.plan
    if isinstance(plan, Ablation):
        if choice := next_choice(history):
            return choice
        listed, chosen = {trial.name for trial in history.of("trial")}, history.tuning.chosen
        names = [name for name in plan.arms if name not in listed and (plan.tune is None or name in chosen)]
        tuning = [trial for trial in history.of("tuning") if not history.tuning.is_settled(trial)]
        # Arms are compared when all are tuned. One whose trials all failed does not keep the others waiting.
        if names and not any(unplanned(history)) and all(history.answer(trial).status != "open" for trial in tuning):
            return PlanArms(tuple(names))
    for trial, run in _startable(history):
        action = _towards(history, trial, run, in_flight)
        if action is not None:
            cutoff = race_cutoff(history, trial, run)
            return action if cutoff is None else LeaveOut(run, cutoff)
    if isinstance(plan, Ablation):
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
    """Returns an arm whose trials have all ended, and the one with the highest validation mean.

    No choice is made where no trial completed and one failed for a reason that is not its recipe's: the next command
    tries it again.
    """
    tune = tuning_of(history.edition)
    for arm in history.tuning.untuned_arms():
        statuses = [history.answer(trial).status for trial in history.tuning.trials(arm)]
        if tune is None or len(statuses) < tune.trials or "open" in statuses:
            continue
        best = best_number(history, arm)
        if best is not None or set(statuses) == {"diverged"}:
            return Choose(arm, best)
    return None


def best_number(history: History, arm: str) -> int | None:
    """Returns the number of an arm's completed trial with the highest validation mean; the lowest of equal ones."""
    answers = {trial.number: history.answer(trial) for trial in history.tuning.trials(arm)}
    means = [(answer.mean or 0.0, -number) for number, answer in answers.items() if answer.status == "completed"]
    return -max(means)[1] if means else None


def unplanned(history: History) -> Iterator[Tune]:
    """Yields the trials of tuning that are not planned yet, in the order in which they will be."""
    tune = tuning_of(history.edition)
    planned = {(trial.tunes and trial.tunes[0], trial.number) for trial in history.of("tuning")}
    for number in range(tune.trials if tune else 0):
        yield from (Tune(arm, number) for arm in history.tuning.untuned_arms() if (arm, number) not in planned)


def _startable(history: History) -> Iterator[tuple[Trial, Run]]:
    """Yields the runs that may be started now, in order: of a point its first seed, then, if that completed, others."""
    plan = history.edition.study.plan
    if isinstance(plan, Ablation):
        for trial in history.of("tuning"):
            if not history.tuning.is_settled(trial):
                first, *others = history.runs(trial).values()
                yield trial, first
                if history.state(first).status == "completed":
                    yield from ((trial, run) for run in others)
        if plan.race:  # no arm is two seeds ahead of another one, which may still be out
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
    """Yields each trial's first seed, then each trial's second seed: a study that is cut short is balanced and paired.

    `most`: how many seeds may begin.
    """
    rows = [list(history.runs(trial).values()) for trial in trials]
    for runs in islice(zip(*rows, strict=True), most):
        yield from zip(trials, runs, strict=True)


def _towards(history: History, trial: Trial, run: Run, in_flight: set[str]) -> Action | None:
    """Returns the next step towards the answer of this run, or None if nothing can be done now."""
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
    """Returns the numbers of a role's completed trials by the key of their first run, best first, each recipe once."""
    best: dict[str, int] = {}
    for trial in history.highest(len(history.of(role)), role):
        best.setdefault(history.first_run(trial).key, trial.number)
    return best


def parent_name(parent: Run, use: Use) -> str:
    """Returns the name of a parent's trial: its encoding, its data, and whether it is a teacher."""
    data = parent.recipe.data
    name = f"{parent.recipe.encoding.label} on {getattr(data, 'task', data.kind)}"
    return f"teacher: {name}" if use == "teacher" else name


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
