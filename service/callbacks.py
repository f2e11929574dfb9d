"""Plain functions of a user that are called while a study runs: at the end of each epoch, and of each trial."""

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
    """An epoch of a run has ended. `trial` and `name`: as the columns of `result.table()`; `values`: its metrics."""

    study: str
    trial: str
    name: str
    seed: int
    epoch: int
    values: dict[str, float]


@dataclass(frozen=True)
class TrialEnd:
    """A trial has ended, with all of its seeds. `status` and `mean`: as the columns of `result.trials()`."""

    study: str
    trial: str
    name: str
    status: str
    mean: float | None


Callback = Callable[[EpochEnd | TrialEnd], object]
"""A function that takes the end of an epoch or of a trial. What it returns is not read, and it should be quick, because
the study waits for it. It is called in the thread that runs the study, never twice at the same time."""


def checked(callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
    """Returns the functions, as they were given. Raises: SpecError for what is no list of functions."""
    if not isinstance(callbacks, list | tuple) or not all(map(callable, callbacks)):
        raise SpecError(f"callbacks must be a list of functions, got {callbacks!r}")
    return tuple(callbacks)


class Callbacks:
    """Calls functions with what a driver adds to its journal: what an earlier command measured is not said again.

    If another study trained a run, a function gets all its epochs at once. When a function raises an error, the first
    one is printed, and the study goes on. `say`: prints a line.
    """

    def __init__(self, functions: Iterable[Callback], driver: Driver, say: Callable[[str], None]) -> None:
        self._functions, self._driver, self._say = tuple(functions), driver, say
        self._of_run: dict[str, list[tuple[Trial, int]]] = {}
        self._known: tuple[int, int] = (0, 0)
        self._told: set[tuple[str, str, int]] = set()
        self._failed: set[int] = set()

    def add(self, fact: Fact) -> None:
        """Calls the functions where a fact ends an epoch or a trial."""
        if not self._functions or fact.by != self._driver.journal.session.number:
            return
        study = self._driver.edition.id
        if isinstance(fact, Measured):
            for trial, seed in self._trials(fact.run):
                self._call(EpochEnd(study, trial.label, trial.name, seed, fact.epoch, dict(fact.values)))
        elif isinstance(fact, FailedWith):  # a parent that fails ends its children, too
            self._end(self._driver.history.trials)
        elif isinstance(fact, Ended | StoppedAt):
            self._end(trial for trial, _ in self._trials(fact.run))

    def _end(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            answer = self._driver.history.answer(trial)
            told = (trial.label, answer.status, len(answer.values))
            if answer.status != "open" and told not in self._told:
                self._told.add(told)
                self._call(TrialEnd(self._driver.edition.id, trial.label, trial.name, answer.status, answer.mean))

    def _trials(self, run: str) -> list[tuple[Trial, int]]:
        """Returns the trials that a run belongs to, and its seed in each.

        All runs are listed once, and again after trials or seeds were added.
        """
        history = self._driver.history
        if self._known != (now := (len(history.trials), history.seeds)):
            self._known, self._of_run = now, {}
            for trial in history.trials:
                for seed, planned in history.runs(trial).items():
                    self._of_run.setdefault(planned.key, []).append((trial, seed))
        return self._of_run.get(run, [])

    def _call(self, end: EpochEnd | TrialEnd) -> None:
        for place, function in enumerate(self._functions):
            try:
                function(end)
            except Exception as error:
                if place in self._failed:
                    continue
                self._failed.add(place)
                log = self._driver.folder.log
                self._driver.folder.add_to_log(traceback.format_exc())
                name = getattr(function, "__name__", type(function).__name__)
                self._say(f"the callback {name} failed ({type(error).__name__}: {error}; see {log}); the study goes on")
