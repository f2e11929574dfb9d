"""A trial's mean curve: the mean over its seeds, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean, stdev

from search_spaces.study import Trial
from service.storage.history import History
from service.storage.states import RunState
from trainables.recipe.outcome import at_image_size, of_ema

TRAIN_S = "time/train_s"
"""The training time up to an epoch: of a run its own, of a trial the sum over its seeds."""
DIGITS = 6
"""How many digits of a mean and of a standard deviation are shown."""


@dataclass(frozen=True)
class Point:
    """Numbers at a step. Units: `time` in seconds of the day."""

    step: int
    time: float
    values: dict[str, float]

    def without_tests(self) -> Point:
        """The point without the scores of the test set."""
        return Point(self.step, self.time, {k: v for k, v in self.values.items() if not k.startswith("test/")})


def seed_curve(state: RunState) -> list[Point]:
    """A run's curve as it was measured, with the training time up to each epoch."""
    seconds = train_s(state)
    return [
        Point(epoch, fact.time, {**fact.values, **({TRAIN_S: rounded(seconds[epoch])} if seconds else {})})
        for epoch, fact in sorted(state.curve.items())
    ]


def train_s(state: RunState) -> dict[int, float]:
    """The training time of a run up to each epoch measured; empty if an epoch lacks it. Units: seconds."""
    epochs = sorted(state.curve)
    values = [state.curve[epoch].values.get("time/epoch_s") for epoch in epochs]
    known = [value for value in values if value is not None]
    return dict(zip(epochs, accumulate(known), strict=True)) if len(known) == len(epochs) else {}


def mean_curve(history: History, trial: Trial) -> list[Point]:
    """Per epoch and metric, over the seeds that have that epoch: `val/accuracy_mean`, `_n`, and `_std` from two on.

    A diverged seed counts as chance from its divergence on, so that the last point is the trial's answer. A point's
    time is when the trial began plus the seeds' mean training time, for seeds begin one after another.
    """
    states = [state for state in map(history.state, history.runs(trial).values()) if state.answered]
    last = trial.recipe.optimizer.epochs
    epochs = {epoch for state in states for epoch in state.curve}
    if any(state.status == "diverged" for state in states):
        epochs.add(last)
    clocks = [_elapsed(state) for state in states]
    spent = [train_s(state) for state in states]
    points: list[Point] = []
    time = min((state.begun or state.last or 0.0 for state in states), default=0.0)
    begun = time
    for epoch in sorted(epochs):
        seeds = [_values(state, epoch, trial) for state in states]
        values = _folded([one for one in seeds if one])
        time = max(time, begun + fmean([_until(clock, epoch) for clock in clocks]))
        if any(spent):
            values[TRAIN_S] = rounded(sum(_until(seconds, epoch) for seconds in spent))
        points.append(Point(epoch, time, values))
    return points


def rounded(value: float) -> float:
    """A number in the digits that are shown."""
    return float(f"{value:.{DIGITS}g}")


def _values(state: RunState, epoch: int, trial: Trial) -> dict[str, float]:
    """The scores of a seed at an epoch."""
    if epoch in state.curve:
        values = state.curve[epoch].values
        return {name: value for name, value in values.items() if name.startswith(("val/", "test/"))}
    if state.status != "diverged" or epoch < state.epoch:
        return {}
    data, last = trial.recipe.data, trial.recipe.optimizer.epochs
    test = trial.score.test
    tests = [test, *(at_image_size(test, side) for side in trial.recipe.test_sizes)]
    scores = [trial.score.metric, *(tests if epoch == last else ())]
    if trial.recipe.optimizer.ema_decay is not None:
        metric = data.reported
        scores += [of_ema(f"val/{metric}"), *([of_ema(f"test/{metric}")] if epoch == last else ())]
    return {name: data.chance("val" if name.startswith("val/") else "test") for name in scores}


def _elapsed(state: RunState) -> dict[int, float]:
    """The time from a run's begin to each epoch: its training time where that is known, else by the clock."""
    first = state.begun or min((fact.time for fact in state.curve.values()), default=0.0)
    return train_s(state) or {epoch: fact.time - first for epoch, fact in state.curve.items()}


def _until(seconds: dict[int, float], epoch: int) -> float:
    """The time up to an epoch, or up to the last one before it."""
    return max((value for at, value in seconds.items() if at <= epoch), default=0.0)


def _folded(seeds: list[dict[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in dict.fromkeys(name for values in seeds for name in values):
        values = [seed[name] for seed in seeds if name in seed]
        found |= {f"{name}_mean": rounded(fmean(values)), f"{name}_n": len(values)}
        if len(values) > 1:
            found[f"{name}_std"] = rounded(stdev(values))
    return found
