"""A trial's mean curve: the mean over its seeds, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, stdev

from search_spaces.study import Trial
from service.storage.history import History, RunState
from trainables.recipe.outcome import at_image_size, of_ema


@dataclass(frozen=True)
class Point:
    """Numbers at a step. Units: `time` in seconds of the day."""

    step: int
    time: float
    values: dict[str, float]

    def without_tests(self) -> Point:
        """The point without the scores of the test set."""
        return Point(self.step, self.time, {k: v for k, v in self.values.items() if not k.startswith("test/")})


def mean_curve(history: History, trial: Trial) -> list[Point]:
    """Per epoch and metric, over the seeds that have that epoch: `val/accuracy_mean`, `_n`, and `_std` from two on.

    A diverged seed counts as chance from its divergence on, so that the last point is the trial's answer.
    """
    states = [state for state in map(history.state, history.runs(trial).values()) if state.answered]
    last = trial.recipe.optimizer.epochs
    epochs = {epoch for state in states for epoch in state.curve}
    if any(state.status == "diverged" for state in states):
        epochs.add(last)
    points = []
    for epoch in sorted(epochs):
        seeds = [_values(state, epoch, trial) for state in states]
        points.append(Point(epoch, _time(states, epoch), _folded([values for values in seeds if values])))
    return points


def _values(state: RunState, epoch: int, trial: Trial) -> dict[str, float]:
    """The scores of a seed at an epoch."""
    if epoch in state.curve:
        values = state.curve[epoch].values
        return {name: value for name, value in values.items() if name.startswith(("val/", "test/"))}
    if state.status != "diverged" or epoch < state.epoch:
        return {}
    chance, last = trial.recipe.data.chance, trial.recipe.optimizer.epochs
    test = trial.score.test
    tests = [test, *(at_image_size(test, side) for side in trial.recipe.test_sizes)]
    scores = [trial.score.metric, *(tests if epoch == last else ())]
    if trial.recipe.optimizer.ema_decay is not None:
        metric = trial.recipe.data.metric
        scores += [of_ema(f"val/{metric}"), *([of_ema(f"test/{metric}")] if epoch == last else ())]
    return dict.fromkeys(scores, chance)


def _time(states: list[RunState], epoch: int) -> float:
    """When the last seed reached an epoch."""
    return max((state.curve[epoch].time if epoch in state.curve else state.last or 0.0) for state in states)


def _folded(seeds: list[dict[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in dict.fromkeys(name for values in seeds for name in values):
        values = [seed[name] for seed in seeds if name in seed]
        found |= {f"{name}_mean": fmean(values), f"{name}_n": len(values)}
        if len(values) > 1:
            found[f"{name}_std"] = stdev(values)
    return found
