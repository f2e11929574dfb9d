"""What a study does next. Pure: a history and the runs in flight in, one action out.

One function serves search, ablation, resume and extension: unfinished runs first, then the next arm or a new point,
then the confirmation of a search's best on fresh seeds. Nothing trains twice at once: runs in flight are known by key,
also when two arms share a parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from search_spaces.study import CONFIRMED, Ablation, Search, Trial
from service.storage.history import History
from trainables.recipe import Run, Use


@dataclass(frozen=True)
class Give:
    """Train this run next."""

    run: Run
    trial: Trial


@dataclass(frozen=True)
class Inherit:
    """A parent of this run diverged: so did it, untrained."""

    run: Run


@dataclass(frozen=True)
class Adopt:
    """A parent that no row stands for yet: list it. `use`: what its child needs it for."""

    parent: Run
    use: Use


@dataclass(frozen=True)
class Propose:
    """Ask the sampler for the point of this number."""

    number: int


@dataclass(frozen=True)
class PlanArms:
    """List the arms of the ablation."""


@dataclass(frozen=True)
class Confirm:
    """Confirm these trials on fresh seeds, best first."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Wait:
    """Nothing to give until a run in flight ends."""


@dataclass(frozen=True)
class Done:
    """Nothing is left to do."""


Action = Give | Inherit | Adopt | Propose | PlanArms | Confirm | Wait | Done


def next_action(history: History, flying: set[str]) -> Action:
    """The next thing to do, given the keys of the runs in flight."""
    plan = history.edition.study.plan
    if isinstance(plan, Ablation) and not history.of("trial"):
        return PlanArms()
    for trial, run in _wanted(history):
        action = _towards(history, trial, run, flying)
        if action is not None:
            return action
    if isinstance(plan, Ablation):
        return Wait() if flying else Done()
    if len(history.of("trial")) < history.wanted:
        return Propose(len(history.of("trial")))
    if any(history.answer(trial).status == "open" for trial in history.of("trial")):
        return Wait()
    chosen = _to_confirm(history, plan)
    if chosen != history.confirms:
        return Confirm(chosen)
    return Wait() if flying else Done()


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
    """Seeds outermost: cut short, what is there is balanced and paired."""
    rows = [list(history.runs(trial).values()) for trial in trials]
    for runs in zip(*rows, strict=True):
        yield from zip(trials, runs, strict=True)


def _towards(history: History, trial: Trial, run: Run, flying: set[str]) -> Action | None:
    """What brings this run nearer to its answer, or None where nothing can be done now."""
    state = history.state(run)
    if state.answered or run.key in flying or history.given_up(run):
        return None
    rows: list[tuple[Trial, Run]] = []
    for use, parent in run.parents.items():
        row = next((other for other in history.of("parent") if other.recipe == parent.recipe), None)
        if row is None:
            return Adopt(parent, use)
        rows.append((row, parent))
    statuses = {history.state(parent).status for _, parent in rows}
    if "diverged" in statuses:
        return Inherit(run)
    if statuses <= {"completed"}:
        return Give(run, trial)
    actions = (_towards(history, row, parent, flying) for row, parent in rows)
    return next((action for action in actions if action is not None), None)


def _to_confirm(history: History, plan: Search) -> tuple[int, ...]:
    """The best three and the point tried first, without doubles."""
    numbers = [trial.number for trial in history.highest(CONFIRMED)]
    if plan.first and history.answer(history.of("trial")[0]).status != "incomplete":
        numbers.append(0)
    return tuple(dict.fromkeys(numbers))
