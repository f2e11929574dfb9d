"""Which trial is best: one rule for the terminal, MLflow, the report and Python.

The highest validation mean decides. Once every confirmation of a search has ended, the confirmed trials alone compete;
until then the search's own points do. A trial that lacks a seed cannot win, equal means are a tie, and where no trial
is above chance nothing is best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from search_spaces.study import Trial
from service.analysis.statistics import Scores
from service.analysis.trial_scores import validation_scores
from service.storage.history import History

EQUAL = 1e-9
"""Means that differ by less are equal: rounding of sums can move their last digits."""


@dataclass(frozen=True)
class Best:
    """The best trials of a study.

    `highest`: the trials with the highest validation mean, several where they tie; `above_chance`: whether any trial
    is above chance; `learnt`: whether at least a seed of one is; `confirmed`: whether trials on fresh seeds competed.
    """

    highest: tuple[Trial, ...] = ()
    above_chance: bool = False
    learnt: bool = False
    confirmed: bool = False

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The best trials: one, several that tie, or none where no trial is above chance."""
        return self.highest if self.above_chance else ()

    @property
    def tied(self) -> bool:
        """True where several trials share the highest mean."""
        return len(self.trials) > 1


def find_best(history: History) -> Best:
    """The best trials of a study so far."""
    for confirmed, trials in ((True, _confirmed(history)), (False, history.of("trial"))):
        complete = list(_complete(history, trials))
        if complete:
            return _choose(complete, confirmed)
    return Best()


def ranked(history: History) -> list[Trial]:
    """All trials, best first: confirmations before the points they confirm, then by status and validation mean."""
    return sorted(history.trials, key=lambda trial: place_key(history, trial))


def place_key(history: History, trial: Trial) -> tuple[int, int, float, int]:
    """What trials are ordered by: kind, status, the validation mean with a minus, number. The smallest is best."""
    roles = {"confirmation": 0, "trial": 1, "parent": 2}
    order = {"completed": 0, "incomplete": 1, "open": 2, "stopped": 3, "diverged": 4}
    answer = history.answer(trial)
    current = trial.role != "confirmation" or trial.number in history.confirms
    mean = -math.inf if answer.mean is None else answer.mean
    return roles[trial.role] if current else 3, order[answer.status], -mean, trial.number


def _confirmed(history: History) -> list[Trial]:
    """The confirmations, once all of them have ended."""
    trials = [trial for trial in history.of("confirmation") if trial.number in history.confirms]
    whole = {trial.number for trial in trials} == {*history.confirms}
    return trials if whole and all(history.answer(trial).status != "open" for trial in trials) else []


def _complete(history: History, trials: list[Trial]) -> Iterator[tuple[Trial, Scores]]:
    for trial in trials:
        answer = history.answer(trial)
        if answer.status == "completed" and answer.values:
            yield trial, validation_scores(history, trial, answer)


def _choose(complete: list[tuple[Trial, Scores]], confirmed: bool) -> Best:
    highest = max(scores.mean or 0.0 for _, scores in complete)
    same = [trial for trial, scores in complete if math.isclose(scores.mean or 0.0, highest, rel_tol=0, abs_tol=EQUAL)]
    return Best(
        highest=tuple(sorted(same, key=lambda trial: trial.number)),
        above_chance=any(scores.above_chance for _, scores in complete),
        learnt=any(scores.any_above_chance for _, scores in complete),
        confirmed=confirmed,
    )
