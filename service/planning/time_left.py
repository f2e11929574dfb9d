"""How much of a study is done, and how long the rest takes, from the epochs that were measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from service.planning.estimate import known_runs, unproposed
from service.storage.history import History
from trainables.recipe import Run


@dataclass(frozen=True)
class Amount:
    """Runs that have ended, and all that a study will have, at most."""

    done: int
    total: int


def amount(history: History) -> Amount:
    """How many runs have ended, and how many there will be, at most; parents count."""
    runs = known_runs(history)
    return Amount(sum(history.state(run).answered for run in runs), len(runs) + unproposed(history))


def time_left(history: History, max_concurrent: int, epoch_s: float | None = None) -> float | None:
    """Seconds until the end, or None before the first epoch. A run that is stopped early ends before.

    An epoch of a run takes as long as its trial's epochs took so far, or those of the study; `epoch_s` is that of
    earlier studies. Concurrent runs are taken to finish equally many epochs.
    """
    known = epoch_times(history)
    everywhere = median([time for times in known.values() for time in times]) if known else epoch_s
    if everywhere is None:
        return None
    open_runs = [(label, run) for label, run in _open(history)]
    seconds = [
        (run.recipe.optimizer.epochs - history.state(run).epoch) * median(known.get(label) or [everywhere])
        for label, run in open_runs
    ]
    ahead = unproposed(history)
    seconds += [history.edition.study.base.optimizer.epochs * everywhere] * ahead
    if not seconds:
        return 0.0
    return max(sum(seconds) / min(max_concurrent, len(seconds)), max(seconds))


def epoch_times(history: History) -> dict[str, list[float]]:
    """The seconds of every measured epoch, by the label of its trial. A reused run's are those of its own time."""
    found: dict[str, list[float]] = {}
    for trial in history.trials:
        for run in history.runs(trial).values():
            curve = history.state(run).curve.values()
            if times := [fact.values["time/epoch_s"] for fact in curve if "time/epoch_s" in fact.values]:
                found.setdefault(trial.label, []).extend(times)
    return found


def _open(history: History) -> Iterator[tuple[str, Run]]:
    """The runs that have not ended, each with the label of its trial; arms that are not listed yet have none."""
    labels = {run.key: trial.label for trial in history.trials for run in history.asked(trial)}
    for run in known_runs(history):
        if not history.state(run).answered:
            yield labels.get(run.key, ""), run
