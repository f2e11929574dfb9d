"""How much of a study is done, and how long the rest takes, from the epochs that were measured. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

from search_spaces.roles import COMPARED
from search_spaces.study import Trial
from service.planning.epoch_times import epoch_s, side_by_side
from service.planning.unproposed import unproposed
from service.planning.work_rows import unlisted_arms
from service.storage.history import History, ancestors
from trainables.recipe import Recipe, Run


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

    An epoch of a run takes as long as its trial's epochs took so far, or those of the study on average. Concurrent runs
    are taken to finish equally many epochs.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self._begin()

    def _begin(self) -> None:
        self._generation = self.history.generation
        self._settled: set[str] = set()
        self._runs: dict[str, bool] = {}
        """The runs of settled trials by their keys, and whether they were answered."""
        self._times: list[float] = []

    def __call__(self, max_concurrent: int, epoch_s: float | None = None) -> Left:
        """What is left now. `epoch_s`: the time of an epoch in earlier studies."""
        history = self.history
        if self._generation != history.generation:
            self._begin()
        self._settle()
        runs: dict[str, tuple[str, Run]] = {}
        times: dict[str, list[float]] = {}
        for trial in [*history.trials, *unlisted_arms(history)]:
            if trial.label not in self._settled:
                runs |= {key: known for key, known in _known(history, trial).items() if known[0] or key not in runs}
                times[trial.label] = epoch_times(history, trial)
        runs = {key: known for key, known in runs.items() if key not in self._runs}
        ahead = unproposed(history).recipes
        todo = [(label, run) for label, run in runs.values() if not history.state(run).answered]
        every_time = [*self._times, *(time for some in times.values() for time in some)]
        usual = fmean(every_time) if every_time else epoch_s
        return Left(
            done=sum(self._runs.values()) + len(runs) - len(todo),
            total=len(self._runs) + len(runs) + len(ahead),
            seconds=None if usual is None else self._seconds(todo, times, usual, ahead, max_concurrent),
        )

    def _settle(self) -> None:
        """Remembers the trials that were settled since the last call."""
        history, waiting = self.history, self.history.waiting()
        for trial in history.trials:
            if trial.role in COMPARED and trial.label not in waiting and trial.label not in self._settled:
                self._settled.add(trial.label)
                for key, (_, run) in _known(history, trial).items():
                    self._runs[key] = history.state(run).answered
                self._times += epoch_times(history, trial)

    def _seconds(
        self,
        todo: list[tuple[str, Run]],
        times: dict[str, list[float]],
        usual: float,
        ahead: list[Recipe],
        max_concurrent: int,
    ) -> float:
        history = self.history
        seconds = [
            (run.recipe.optimizer.epochs - history.state(run).epoch) * median(times.get(label) or [usual])
            for label, run in todo
        ]
        seconds += [recipe.optimizer.epochs * usual for recipe in ahead]
        return side_by_side(seconds, max_concurrent)


def epoch_times(history: History, trial: Trial) -> list[float]:
    """The seconds of an epoch of each measured run of a trial. A reused run's are those of its own time."""
    states = [history.state(run) for run in history.runs(trial).values()]
    times = [epoch_s((epoch.values for epoch in state.curve.values()), state.answered) for state in states]
    return [time for time in times if time is not None]


def _known(history: History, trial: Trial) -> dict[str, tuple[str, Run]]:
    """The runs of a trial and those that they need, by key; each with the label of its trial, a parent with none."""
    runs = history.asked(trial)
    parents = {parent.key: ("", parent) for run in runs for parent in ancestors(run)}
    return parents | {run.key: (trial.label, run) for run in runs}
