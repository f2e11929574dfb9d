"""What a study does next. Pure: it maps a history and the runs in flight to one action.

One function serves search, ablation, resume and extension: unfinished runs first, then the next arm or a new point,
then the confirmation of a search's best trials on fresh seeds. No run trains in two processes, because the runs in
flight are known by key; this holds also when two arms share a parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from search_spaces.study import CONFIRMED, Ablation, Search, Trial
from service.storage.history import History
from trainables.recipe import Run, Use


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
    """Ask the sampler for the point of this number."""

    number: int


@dataclass(frozen=True)
class PlanArms:
    """List these arms of the ablation. Some are listed already where a driver was killed while it listed them."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Confirm:
    """Confirm these trials on fresh seeds, best first."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Wait:
    """Nothing can start until a run in flight ends."""


@dataclass(frozen=True)
class Done:
    """Nothing is left to do."""


Action = Assign | MarkDiverged | RegisterParent | Propose | PlanArms | Confirm | Wait | Done


def next_action(history: History, in_flight: set[str]) -> Action:
    """The next thing to do, given the keys of the runs in flight."""
    plan = history.edition.study.plan
    if isinstance(plan, Ablation) and (missing := _unlisted(history, plan)):
        return PlanArms(missing)
    for trial, run in _wanted(history):
        action = _towards(history, trial, run, in_flight)
        if action is not None:
            return action
    if isinstance(plan, Ablation):
        return Wait() if in_flight else Done()
    if len(history.of("trial")) < history.trial_count:
        return Propose(len(history.of("trial")))
    if any(history.answer(trial).status == "open" for trial in history.of("trial")):
        return Wait()
    chosen = _to_confirm(history, plan)
    if chosen != history.confirms:
        return Confirm(chosen)
    return Wait() if in_flight else Done()


def _unlisted(history: History, plan: Ablation) -> tuple[str, ...]:
    listed = {trial.name for trial in history.of("trial")}
    return tuple(name for name in plan.arms if name not in listed)


def _wanted(history: History) -> Iterator[tuple[Trial, Run]]:
    """The runs that may be started now, in order."""
    if isinstance(history.edition.study.plan, Ablation):
        yield from _by_seed(history, history.of("trial"))
        return
    for trial in history.of("trial"):
        first, *others = history.runs(trial).values()
        yield trial, first
        if history.state(first).status == "completed":
            yield from ((trial, run) for run in others)
    confirmed = [trial for trial in history.of("confirmation") if trial.number in history.confirms]
    yield from _by_seed(history, confirmed)


def _by_seed(history: History, trials: list[Trial]) -> Iterator[tuple[Trial, Run]]:
    """Every trial's first seed, then every trial's second seed: a study that is cut short is balanced and paired."""
    rows = [list(history.runs(trial).values()) for trial in trials]
    for runs in zip(*rows, strict=True):
        yield from zip(trials, runs, strict=True)


def _towards(history: History, trial: Trial, run: Run, in_flight: set[str]) -> Action | None:
    """The next step towards the answer of this run, or None where nothing can be done now."""
    state = history.state(run)
    if state.answered or run.key in in_flight or history.given_up(run):
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


def _to_confirm(history: History, plan: Search) -> tuple[int, ...]:
    """The best three and the point tried first, each recipe once."""
    ranked: dict[str, int] = {}
    for trial in history.highest(len(history.of("trial"))):
        ranked.setdefault(history.first_run(trial).key, trial.number)
    numbers = list(ranked.values())[:CONFIRMED]
    first = history.of("trial")[0]
    if plan.first and history.answer(first).status != "incomplete":
        numbers.append(ranked.get(history.first_run(first).key, first.number))
    return tuple(dict.fromkeys(numbers))
