"""Calls a user's own functions while a study runs: at the end of each epoch, and of each trial."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.study import Trial
from service.storage.facts import Ended, Fact, FailedWith, Measured, StoppedAt
from trainables.spec import SpecError

if TYPE_CHECKING:
    from service.execution.driver import Driver


@dataclass(frozen=True)
class EpochEnd:
    """Says that an epoch of a run (the training of a trial with one seed) has ended.

    `study` is the study's id. `trial` and `name` are those of the columns of `result.table()`. `values` are the
    epoch's metrics, by name.
    """

    study: str
    trial: str
    name: str
    seed: int
    epoch: int
    values: dict[str, float]


@dataclass(frozen=True)
class TrialEnd:
    """Says that a trial has ended, with all of its seeds.

    `status` and `mean` are those of the columns of `result.trials()`; `mean` is None if no seed has a score.
    """

    study: str
    trial: str
    name: str
    status: str
    mean: float | None


Callback = Callable[[EpochEnd | TrialEnd], object]
"""A function that takes the end of an epoch or of a trial. What it returns is not read, and it should be quick, because
the study waits for it. It is called in the thread that runs the study, never twice at the same time."""


def checked(callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
    """Returns a user's callbacks as a tuple. Raises: SpecError for what is no list of functions."""
    if not isinstance(callbacks, list | tuple) or not all(map(callable, callbacks)):
        raise SpecError(f"callbacks must be a list of functions, got {callbacks!r}")
    return tuple(callbacks)


class Callbacks:
    """Calls a user's functions with the ends that this driver writes to its journal, not with earlier commands' ends.

    If another study trained a run, a function gets all epochs of the run at once. If a function raises errors, its
    first error is printed, and the study goes on. `say` prints a line.
    """

    def __init__(self, functions: Iterable[Callback], driver: Driver, say: Callable[[str], None]) -> None:
        self._functions, self._driver, self._say = tuple(functions), driver, say
        self._of_run: dict[str, list[tuple[Trial, int]]] = {}
        self._counts = (0, 0)
        self._said: set[tuple[str, str, int]] = set()
        self._failed: set[int] = set()

    def add(self, fact: Fact) -> None:
        """Calls the user's functions if a fact, a line of the journal, ends an epoch or a trial."""
        if not self._functions or fact.by != self._driver.journal.session.number:
            return
        study, history = self._driver.edition.id, self._driver.history
        ended: list[Trial] = []
        if isinstance(fact, Measured):
            for trial, seed in self._trials(fact.run):
                self._call(EpochEnd(study, trial.label, trial.name, seed, fact.epoch, dict(fact.values)))
        elif isinstance(fact, FailedWith):  # a parent that fails ends its children, too
            ended = history.trials
        elif isinstance(fact, Ended | StoppedAt):
            ended = [trial for trial, _ in self._trials(fact.run)]
        for trial in ended:
            answer = history.answer(trial)
            end = (trial.label, answer.status, len(answer.values))
            if answer.status != "open" and end not in self._said:
                self._said.add(end)
                self._call(TrialEnd(study, trial.label, trial.name, answer.status, answer.mean))

    def _trials(self, run: str) -> list[tuple[Trial, int]]:
        """Returns the trials that a run belongs to, each with the run's seed in it. `run` is the key of the run.

        The runs of all trials are listed once, and again after trials or seeds were added.
        """
        history = self._driver.history
        if self._counts != (counts := (len(history.trials), history.seeds)):
            self._counts, self._of_run = counts, {}
            for trial in history.trials:
                for seed, planned in history.runs(trial).items():
                    self._of_run.setdefault(planned.key, []).append((trial, seed))
        return self._of_run.get(run, [])

    def _call(self, end: EpochEnd | TrialEnd) -> None:
        """Calls each of the user's functions with the end of an epoch or a trial."""
        for number, function in enumerate(self._functions):
            try:
                function(end)
            except Exception as error:
                if number not in self._failed:
                    self._failed.add(number)
                    folder, name = self._driver.folder, getattr(function, "__name__", type(function).__name__)
                    folder.add_to_log(traceback.format_exc())
                    why = f"{type(error).__name__}: {error}; see {folder.log}"
                    self._say(f"the callback {name} failed ({why}); the study goes on")
