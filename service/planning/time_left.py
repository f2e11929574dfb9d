"""How much of a study is done, and how long the rest takes, from the runs that were measured. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from search_spaces.roles import COMPARED
from search_spaces.study import Trial
from service.planning.epoch_times import EpochTimes, RunTime, Works, run_time, side_by_side
from service.planning.unproposed import unproposed
from service.planning.work_rows import unlisted_arms
from service.storage.history import History, ancestors
from trainables.recipe import Run


@dataclass(frozen=True)
class Left:
    """Runs that have ended, all that a study will have at most, and the time until the end.

    Units: `seconds`; None before the first epoch. A run that is stopped early ends before.
    """

    done: int
    total: int
    seconds: float | None


@dataclass(frozen=True)
class Span:
    """When a run began and ended, and what it took beside its epochs. Units: seconds."""

    begun: float
    end: float
    beside: float


def start_time(spans: Sequence[Span]) -> float:
    """What a run takes beside its epochs, above all to start. Units: seconds; 0 where no run has ended."""
    return max(median(one.beside for one in spans), 0.0) if spans else 0.0


def wait_time(spans: Sequence[Span]) -> float:
    """How long a place stays empty between two runs. A study that was interrupted for a night changes no median.

    Units: seconds.
    """
    ends = sorted(one.end for one in spans)
    before = [(one.begun, bisect_right(ends, one.begun)) for one in spans]
    return median([begun - ends[count - 1] for begun, count in before if count] or [0.0])


class Forecast:
    """Says how much of a study is left, while it runs. It looks at each trial that has ended only once, to be fast.

    An epoch of a run takes as long as in runs of the same work so far, or those of the study on average. A run takes
    its start, too, and the wait for its place, as the runs that have ended did. Concurrent runs are taken to finish
    equally many epochs.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self._works = Works()
        self._begin()

    def _begin(self) -> None:
        self._generation = self.history.generation
        self._settled: set[str] = set()
        self._runs: dict[str, bool] = {}
        """The runs of settled trials by their keys, and whether they were answered."""
        self._times: list[RunTime | None] = []
        """Those of the runs of settled trials."""
        self._spans: list[Span] = []
        """Those of the runs of settled trials that were trained here."""

    def __call__(self, max_concurrent: int, epoch_s: float | None = None) -> Left:
        """What is left now. `epoch_s`: the time of an epoch in earlier studies."""
        history = self.history
        if self._generation != history.generation:
            self._begin()
        self._settle()
        runs: dict[str, Run] = {}
        for trial in [*history.trials, *unlisted_arms(history)]:
            if trial.label not in self._settled:
                runs |= _known(history, trial)
        runs = {key: run for key, run in runs.items() if key not in self._runs}
        times = EpochTimes([*self._times, *(self._time(run) for run in runs.values())], epoch_s, self._works)
        todo = [run for run in runs.values() if not history.state(run).answered]
        ahead = unproposed(history).recipes
        spans = [*self._spans, *(span for run in runs.values() if (span := self._span(run)))]
        start, wait = start_time(spans), wait_time(spans)
        left = [(run.recipe, *self._left(run, start, wait)) for run in todo]
        left += [(recipe, recipe.optimizer.epochs, start + wait) for recipe in ahead]
        seconds = [epochs * time + more for recipe, epochs, more in left if (time := times(recipe)) is not None]
        return Left(
            done=sum(self._runs.values()) + len(runs) - len(todo),
            total=len(self._runs) + len(runs) + len(ahead),
            seconds=side_by_side(seconds, max_concurrent) if len(seconds) == len(left) else None,
        )

    def _settle(self) -> None:
        """Remembers the trials that were settled since the last call."""
        history, waiting = self.history, self.history.waiting()
        for trial in history.trials:
            if trial.role in COMPARED and trial.label not in waiting and trial.label not in self._settled:
                self._settled.add(trial.label)
                runs = _known(history, trial)
                new = [run for key, run in runs.items() if key not in self._runs]
                self._times += [self._time(run) for run in new]
                self._spans += [span for run in new if (span := self._span(run))]
                self._runs |= {key: history.state(run).answered for key, run in runs.items()}

    def _left(self, run: Run, start: float, wait: float) -> tuple[int, float]:
        """The epochs that a run has yet to train, and the seconds that it takes beside them."""
        state = self.history.state(run)
        epochs = run.recipe.optimizer.epochs - state.epoch
        if state.status != "running":
            return epochs, start + wait
        return epochs, 0.0 if state.curve else start

    def _span(self, run: Run) -> Span | None:
        """Of a run that was trained here to its end; its last try counts, if it had several."""
        state = self.history.state(run)
        if not state.answered or state.reused or state.begun is None or state.last is None:
            return None
        epochs = [one.values.get("time/epoch_s", 0.0) for one in state.curve.values() if one.time >= state.begun]
        return Span(state.begun, state.last, state.last - state.begun - sum(epochs))

    def _time(self, run: Run) -> RunTime | None:
        """A reused run has the times of its own study."""
        state = self.history.state(run)
        return run_time(run.recipe, (epoch.values for epoch in state.curve.values()), state.answered, self._works)


def _known(history: History, trial: Trial) -> dict[str, Run]:
    """The runs of a trial and those that they need, by key."""
    runs = history.asked(trial)
    return {run.key: run for one in runs for run in (*ancestors(one), one)}
