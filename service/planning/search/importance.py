"""How much each searched coordinate matters for the score, as Optuna estimates it from a search's points."""

from __future__ import annotations

import random
from importlib.util import find_spec

import optuna
from optuna.trial import TrialState, create_trial

from search_spaces.study import Search
from service.planning.search.sampling import distribution
from service.storage.history import History

FEWEST_POINTS = 10
"""With fewer points a forest of trees learns nothing that could be shown."""
MOST_POINTS = 150
"""The time grows with the square of the points: 150 take 1 s, 1,000 take 25 s. Of more, so many are drawn."""


TREES = 32
"""Of the forest. Optuna's default, 64, takes twice as long."""


def importances(history: History) -> dict[str, float]:
    """The share of the score's variance by coordinate, of those that every point has; their sum is 1.

    Points that completed count with their mean, diverged ones with chance; stopped points have no comparable score. Of
    more than `MOST_POINTS` points, so many are drawn, always the same.
    Empty for fewer than `FEWEST_POINTS` points, one coordinate, or equal scores, and where scikit-learn is missing.
    Source: Hutter et al. 2014, An efficient approach for assessing hyperparameter importance (fANOVA).
    """
    edition = history.edition
    plan = edition.study.plan
    if not isinstance(plan, Search) or find_spec("sklearn") is None:
        return {}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    chance = edition.study.base.data.chance("val")
    points = [(trial, history.answer(trial)) for trial in history.of("trial")]
    points = [(trial, answer) for trial, answer in points if answer.status in ("completed", "diverged")]
    if len(points) > MOST_POINTS:
        points = random.Random(0).sample(points, MOST_POINTS)
    for trial, answer in points:
        coordinates = plan.space.coordinates(edition.study.base, trial.values)
        study.add_trial(
            create_trial(
                state=TrialState.COMPLETE,
                params={name: value for name, (_, value) in coordinates.items()},
                distributions={name: distribution(coordinate) for name, (coordinate, _) in coordinates.items()},
                value=chance if answer.status == "diverged" else answer.mean,
            )
        )
    return _estimate(study)


def _estimate(study: optuna.Study) -> dict[str, float]:
    trials = study.get_trials(deepcopy=False)
    shared = set.intersection(*({*trial.params} for trial in trials)) if trials else set()
    if len(trials) < FEWEST_POINTS or len(shared) < 2 or len({trial.value for trial in trials}) < 2:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(n_trees=TREES, seed=0)
    found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in found.items()}
