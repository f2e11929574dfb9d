"""A trial's scores as MLflow shows them in one narrow column: `0.9537 ± 0.0124 (n 3)`, `(n 3, 2 learn)`."""

from __future__ import annotations

from search_spaces.study import Trial
from service.analysis.best import place_key
from service.analysis.format import spread
from service.analysis.statistics import Scores
from service.analysis.trial_scores import diverged_seeds, scores_of
from service.storage.history import History
from service.tracking.params import is_point

FARTHEST = 99999.0
"""The greatest distance of a mean from 1 that the order of trials tells from others."""


def score_words(scores: Scores) -> str:
    """The mean, the standard deviation, how many seeds, and how many learn where some do not; empty for no score."""
    if not scores.n:
        return ""
    learn = "" if len(scores.learnt) == scores.n else f", {len(scores.learnt)} learn"
    return f"{spread(scores.mean, scores.std)} (n {scores.n}{learn})"


def test_scores(history: History, trial: Trial) -> Scores:
    """The test scores of the seeds that ended, a diverged one at chance.

    A point of a search or of a tuning has none: the test set is looked at for the answer, not for the search.
    """
    if is_point(history.edition, trial):
        return Scores({}, 0)
    states = {seed: history.state(run) for seed, run in history.runs(trial).items()}
    finals = {seed: state.value(trial.score.test) for seed, state in states.items() if state.status == "completed"}
    return scores_of(trial, "test", finals, diverged_seeds(history, trial), history.answer(trial).asked)


def rank_tag(history: History, trial: Trial) -> str:
    """A trial's place in letters that MLflow can sort, the best first.

    It depends on this trial alone, so no other trial's tag changes when one ends.
    """
    kind, status, minus_mean, number = place_key(history, trial)
    distance = min(1.0 + minus_mean, FARTHEST)
    return f"{kind}{status} {distance:012.6f} {number:04d}"
