"""The scores of a trial by seed, with the scale that its data give them."""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces.study import Trial
from service.analysis.statistics import Scale, Scores
from service.storage.history import History
from service.storage.states import TrialAnswer
from trainables.data import Data
from trainables.data.dataset import SplitName


def score_scale(data: Data, split: SplitName) -> Scale:
    """What a score on a split can be: accuracy comes in steps of one image, R² has no lower end."""
    if data.metric == "r2":
        return Scale(data.chance(split), high=1.0, overlap=data.overlap)
    low = data.score(0.0, split)
    return Scale(data.chance(split), low, 1.0, (1 - low) * data.step(split), overlap=data.overlap)


def diverged_seeds(history: History, trial: Trial) -> frozenset[int]:
    """The seeds of a trial that diverged."""
    return frozenset(seed for seed, run in history.runs(trial).items() if history.state(run).status == "diverged")


def scores_of(
    trial: Trial, split: SplitName, finals: Mapping[int, float | None], diverged: frozenset[int], asked: int
) -> Scores:
    """The scores of a trial on a split, in the order of its seeds; a diverged one at chance.

    `finals`: the last score of each seed that completed; a seed without one is left out. `asked`: how many seeds there
    should be.
    """
    data = trial.recipe.data
    known = {seed: value for seed, value in finals.items() if value is not None}
    values = dict(sorted((known | dict.fromkeys(diverged, data.chance(split))).items()))
    return Scores(values, asked, score_scale(data, split), diverged)


def validation_scores(history: History, trial: Trial, answer: TrialAnswer | None = None) -> Scores:
    """The validation scores of a trial's answered seeds, a diverged one at chance."""
    found = answer or history.answer(trial)
    scale = score_scale(trial.recipe.data, "val")
    return Scores(dict(found.values), found.asked, scale, diverged_seeds(history, trial))
