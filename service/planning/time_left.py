"""How much of a study is done, and how long the rest takes, from the epochs that were measured. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from search_spaces.roles import COMPARED
from search_spaces.study import Trial
from service.planning.epoch_times import EpochTimes, RunTime, run_time, side_by_side
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


class Forecast:
    """Says how much of a study is left, while it runs. It looks at each trial that has ended only once, to be fast.

    An epoch of a run takes as long as in runs of the same work so far, or those of the study on average. Concurrent
    runs are taken to finish equally many epochs.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self._begin()

    def _begin(self) -> None:
        self._generation = self.history.generation
        self._settled: set[str] = set()
        self._runs: dict[str, bool] = {}
        """The runs of settled trials by their keys, and whether they were answered."""
        self._times: list[RunTime | None] = []
        """Those of the runs of settled trials."""

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
        times = EpochTimes([*self._times, *(self._time(run) for run in runs.values())], epoch_s)
        todo = [run for run in runs.values() if not history.state(run).answered]
        ahead = unproposed(history).recipes
        left = [(run.recipe, run.recipe.optimizer.epochs - history.state(run).epoch) for run in todo]
        left += [(recipe, recipe.optimizer.epochs) for recipe in ahead]
        seconds = [epochs * time for recipe, epochs in left if (time := times(recipe)) is not None]
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
                self._times += [self._time(run) for key, run in runs.items() if key not in self._runs]
                self._runs |= {key: history.state(run).answered for key, run in runs.items()}

    def _time(self, run: Run) -> RunTime | None:
        """A reused run has the times of its own study."""
        state = self.history.state(run)
        return run_time(run.recipe, (epoch.values for epoch in state.curve.values()), state.answered)


def _known(history: History, trial: Trial) -> dict[str, Run]:
    """The runs of a trial and those that they need, by key."""
    runs = history.asked(trial)
    return {run.key: run for one in runs for run in (*ancestors(one), one)}
