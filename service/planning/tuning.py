"""What the tuning of an ablation's arms does next. Pure, as the schedule is.

Trial 0 of every arm comes first, then trial 1 of every arm: a tuning that is cut short is balanced. An arm's values are
fixed when all its trials have ended. The arms are compared when no trial is left that could fix the values of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from search_spaces.study import Trial
from service.storage.history import History
from service.storage.tuned import tuning_of
from trainables.recipe import Run


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


def next_choice(history: History) -> Choose | None:
    """An arm whose trials have all ended, and the one with the highest validation mean; of equal ones the first.

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
    """The number of an arm's completed trial with the highest validation mean, of equal ones the lowest number."""
    answers = {trial.number: history.answer(trial) for trial in history.tuning.trials(arm)}
    found = [(answer.mean or 0.0, -number) for number, answer in answers.items() if answer.status == "completed"]
    return -max(found)[1] if found else None


def next_point(history: History) -> Tune | None:
    """The first trial that is not planned yet; None where all are."""
    return next(unplanned(history), None)


def unplanned(history: History) -> Iterator[Tune]:
    """The trials that are not planned yet, in the order in which they will be."""
    tune = tuning_of(history.edition)
    known = {(trial.tunes and trial.tunes[0], trial.number) for trial in history.of("tuning")}
    for number in range(tune.trials if tune else 0):
        yield from (Tune(arm, number) for arm in history.tuning.untuned_arms() if (arm, number) not in known)


def tuning_runs(history: History) -> Iterator[tuple[Trial, Run]]:
    """The runs that may be started now, in order: a trial's first seed, and where it completed its others."""
    for trial in history.of("tuning"):
        if history.tuning.is_settled(trial):
            continue
        first, *others = history.runs(trial).values()
        yield trial, first
        if history.state(first).status == "completed":
            yield from ((trial, run) for run in others)


def is_tuned(history: History) -> bool:
    """Whether the tuning is over, so that the arms may be compared; True where no arm is tuned.

    An arm whose trials all failed is left out, and does not keep the others waiting.
    """
    unsettled = [trial for trial in history.of("tuning") if not history.tuning.is_settled(trial)]
    return next_point(history) is None and all(history.answer(trial).status != "open" for trial in unsettled)
