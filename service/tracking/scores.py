"""A trial's scores as MLflow shows them in one narrow column: `0.9537 ± 0.0124 (n 3)`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from search_spaces.study import Trial
from service.analysis.best import place_key
from service.analysis.format import spread
from service.storage.history import History
from service.tracking.params import is_point

FARTHEST = 99999.0
"""The greatest distance of a mean from 1 that the order of trials tells from others."""


def score_words(values: Sequence[float]) -> str:
    """The mean, the standard deviation and the number of seeds; empty where there is none."""
    if not values:
        return ""
    return f"{spread(fmean(values), stdev(values) if len(values) > 1 else None)} (n {len(values)})"


def validation_values(history: History, trial: Trial) -> list[float]:
    """The validation scores of the answered seeds, a diverged one at chance."""
    return list(history.answer(trial).values.values())


def test_values(history: History, trial: Trial) -> list[float]:
    """The test scores of the seeds that ended, a diverged one at chance.

    A point of a search or of a tuning has none: the test set is looked at for the answer, not for the search.
    """
    if is_point(history.edition, trial):
        return []
    found = []
    for state in map(history.state, history.runs(trial).values()):
        value = state.value(trial.score.test) if state.status == "completed" else None
        if state.status == "diverged":
            value = trial.recipe.data.chance("test")
        if value is not None:
            found.append(value)
    return found


def rank_tag(history: History, trial: Trial) -> str:
    """A trial's place in letters that MLflow can sort, the best first.

    It depends on this trial alone, so no other trial's tag changes when one ends.
    """
    kind, status, minus_mean, number = place_key(history, trial)
    distance = min(1.0 + minus_mean, FARTHEST)
    return f"{kind}{status} {distance:012.6f} {number:04d}"
