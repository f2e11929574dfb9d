"""How much each searched coordinate matters for the score, as Optuna estimates it from a search's points."""

from __future__ import annotations

import random
from importlib.util import find_spec

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from search_spaces.roles import POINTS
from search_spaces.study import Search, Trial
from service.planning.search.sampling import distribution
from service.storage.history import History
from service.storage.states import TrialAnswer

FEWEST_POINTS = 40
"""From 12 points a coordinate that does nothing is shown above one with a fifth of the variance in a third of cases."""
MOST_POINTS = 100
"""The time grows with the square of the points: 100 take 0.2 s, 1,000 take 12 s. Of more, so many are drawn."""
DRAWS = 10
"""How often the points are drawn anew, with replacement, to see how far the shares depend on them."""
TREES = 16
"""Of the forest. Optuna's default, 64, takes four times as long; draws of points differ by more than forests."""

Shares = dict[str, float]
"""The share of the score's variance by coordinate."""


def importances(history: History) -> list[Shares]:
    """The share of the score's variance by coordinate, of those that every point has; their sum is 1.

    The first is that of all points, `DRAWS` others are those of bootstrap draws of them. The search's own points count,
    and its random rivals: those that completed, or are out of the race, with the mean of their seeds, diverged ones
    with chance. Points that were stopped at a rung have no comparable score. Of more than `MOST_POINTS` points, so
    many are drawn, always the same.
    Empty for fewer than `FEWEST_POINTS` points, one coordinate, or equal scores, and where scikit-learn is missing.
    Source: Hutter et al. 2014, An efficient approach for assessing hyperparameter importance (fANOVA).
    """
    if not isinstance(history.edition.study.plan, Search) or find_spec("sklearn") is None:
        return []
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    draw = random.Random(0)
    points = scored_points(history)
    if len(points) > MOST_POINTS:
        points = draw.sample(points, MOST_POINTS)
    trials = [_as_trial(history, *point) for point in points]
    shared = set.intersection(*({*trial.params} for trial in trials)) if trials else set()
    if len(trials) < FEWEST_POINTS or len(shared) < 2 or len({trial.value for trial in trials}) < 2:
        return []
    return [_estimate(trials), *(_estimate(draw.choices(trials, k=len(trials))) for _ in range(DRAWS))]


def scored_points(history: History) -> list[tuple[Trial, TrialAnswer]]:
    """The points whose scores can be compared: those with a last epoch, and diverged ones."""
    points = [(trial, history.answer(trial)) for role in POINTS for trial in history.of(role)]
    return [(trial, answer) for trial, answer in points if answer.raced or answer.status in ("completed", "diverged")]


def _as_trial(history: History, trial: Trial, answer: TrialAnswer) -> FrozenTrial:
    plan, base = history.edition.study.plan, history.edition.study.base
    assert isinstance(plan, Search)
    coordinates = plan.space.coordinates(base, trial.values)
    return create_trial(
        state=TrialState.COMPLETE,
        params={name: value for name, (_, value) in coordinates.items()},
        distributions={name: distribution(coordinate) for name, (coordinate, _) in coordinates.items()},
        value=base.data.chance("val") if answer.status == "diverged" else answer.mean,
    )


def _estimate(trials: list[FrozenTrial]) -> Shares:
    study = optuna.create_study(direction="maximize")
    study.add_trials(trials)
    evaluator = optuna.importance.FanovaImportanceEvaluator(n_trees=TREES, seed=0)
    found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in found.items()}
