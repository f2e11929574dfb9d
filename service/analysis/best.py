"""Which trial is best: one rule for the terminal, MLflow, the report and Python.

The trial with the highest validation mean is best. In a search this mean is over the search's own seeds; the fresh
seeds of a confirmation choose nothing, so they say how good the best trial is. Once every confirmation has ended, only
confirmed trials compete; until then all points do. A trial that lacks a seed cannot win, equal means are a tie, and no
trial is best if none is above chance. No arm is best while an arm still gets seeds. Nor is any arm best if an arm that
the race has ended is ahead of all others: later seeds of the arm that it was below have failed, and later seeds of its
own are not trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from search_spaces.roles import CONFIRMATIONS, POINTS
from search_spaces.study import Trial
from service.analysis.scores import validation_scores
from service.analysis.statistics import Scores
from service.storage.facts import TrialAnswer
from service.storage.history import History

Tied = TypeVar("Tied")
EQUAL = 1e-9
"""Two means that differ by less than this count as equal: rounding of sums can move their last digits."""


@dataclass(frozen=True)
class Best:
    """The best trials of a study.

    `highest` has the trials with the highest validation mean, several if they tie. `above_chance` says whether any
    trial is above chance, and `confirmed` whether trials on fresh seeds competed. `ended` is an arm that the race has
    ended and that has a higher mean than all others, so that no trial is best.
    """

    highest: tuple[Trial, ...] = ()
    above_chance: bool = False
    confirmed: bool = False
    ended: Trial | None = None

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The best trials: one, several that tie, or none if no trial is above chance."""
        return self.highest if self.above_chance else ()

    @property
    def tied(self) -> bool:
        """True if several trials share the highest mean."""
        return len(self.trials) > 1


def find_best(history: History) -> Best:
    """Returns the best trials of a study so far.

    It returns no trial while an arm still gets seeds, because means of unlike numbers of seeds are not compared; and if
    an arm that the race has ended is ahead.
    """
    plan, trials = history.edition.study.plan, history.of("trial")
    if plan.arms and any(history.answer(trial).status == "open" for trial in trials):
        return Best()
    confirmations = history.confirmations("confirmation")
    if {trial.number for trial in confirmations} == {*history.confirms} and all(
        history.answer(trial).status != "open" for trial in confirmations
    ):
        confirmed = _choose(history, confirmations, confirmed=True)
        if confirmed.highest:
            return confirmed
    best = _choose(history, trials, confirmed=False)
    if not best.highest:
        return best
    ended = [trial for trial in trials if plan.arms and history.answer(trial).raced]
    ahead = max(ended, key=lambda trial: chosen_by(history, trial), default=None)
    if ahead and chosen_by(history, ahead) > chosen_by(history, best.highest[0]) + EQUAL:
        return Best(ended=ahead)
    return best


def one_of(tied: Iterable[Tied], tests: Callable[[Tied], Scores]) -> Tied | None:
    """Returns the trial with the highest test mean of the trials that tie as best; None if there is no trial.

    If test means are equal, or no trial has one, it returns the first trial. `tests` returns a trial's test scores.
    """

    def test_mean(trial: Tied) -> float:
        mean = tests(trial).mean
        return -math.inf if mean is None else mean

    return max(tied, key=test_mean, default=None)


def best_rivals(history: History) -> tuple[Trial, ...]:
    """Returns the best of a search's random points, chosen as the search's own best point is.

    It returns no point before all confirmations of random points (trials on fresh seeds) have ended.
    """
    trials = history.confirmations("rival_confirmation")
    if any(history.answer(trial).status == "open" for trial in trials):
        return ()
    return _choose(history, trials, confirmed=True).highest


def ranked(history: History) -> list[Trial]:
    """Returns all trials, the best first: confirmations stand before points, then status and validation mean decide."""
    return sorted(history.trials, key=lambda trial: place_key(history, trial))


def confirmed_points(history: History) -> list[Trial]:
    """Returns the confirmations (trials on fresh seeds) of a search's points, the best first, without replaced ones."""
    return sorted(history.confirmations("confirmation"), key=lambda trial: place_key(history, trial))


def place_key(history: History, trial: Trial, answer: TrialAnswer | None = None) -> tuple[int, int, float, int]:
    """Returns the key by which trials are sorted: role, status, minus the mean that `chosen_by` returns, number.

    The best trial has the smallest key.
    """
    roles = {"confirmation": 0, "trial": 1, "rival_confirmation": 2, "rival": 3, "tuning": 4, "parent": 5}
    order = {"completed": 0, "incomplete": 1, "open": 2, "stopped": 3, "diverged": 4}
    answer = answer or history.answer(trial)
    mean = chosen_by(history, trial, answer)
    return len(roles) if history.is_replaced(trial) else roles[trial.role], order[answer.status], -mean, trial.number


def _choose(history: History, trials: list[Trial], confirmed: bool) -> Best:
    """Returns the best of the trials that completed; a `Best` without trials if none completed."""
    answers = [(trial, history.answer(trial)) for trial in trials]
    complete = [(trial, answer) for trial, answer in answers if answer.status == "completed" and answer.values]
    if not complete:
        return Best()
    means = {trial.label: chosen_by(history, trial) for trial, _ in complete}
    highest = max(means.values())
    same = [trial for trial, _ in complete if math.isclose(means[trial.label], highest, rel_tol=0, abs_tol=EQUAL)]
    return Best(
        highest=tuple(sorted(same, key=lambda trial: trial.number)),
        above_chance=any(validation_scores(history, *row).above_chance for row in complete),
        confirmed=confirmed,
    )


def chosen_by(history: History, trial: Trial, answer: TrialAnswer | None = None) -> float:
    """Returns the validation mean by which a trial is chosen; for a confirmation, the mean of the point it confirms.

    It returns minus infinity if there is no mean. The point that was tried first is confirmed in any case: if it was
    stopped or diverged, its confirmation has minus infinity, too.
    """
    is_confirmation = trial.role in CONFIRMATIONS
    if is_confirmation:
        points = history.of(POINTS[CONFIRMATIONS.index(trial.role)])
        trial, answer = next(point for point in points if point.number == trial.number), None
    answer = answer or history.answer(trial)
    return -math.inf if answer.mean is None or (is_confirmation and answer.status != "completed") else answer.mean
