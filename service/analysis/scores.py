"""The scores of a trial by seed, with the scale of its data, and how many of its seeds failed. Needs no scipy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import fmean

from search_spaces.study import Trial
from search_spaces.words import listed, plural
from service.analysis.format import whole_percent
from service.analysis.statistics import ALPHA, Scale, Scores
from service.storage.facts import TrialAnswer
from service.storage.history import History
from trainables.data import Data
from trainables.data.dataset import SplitName


def score_scale(data: Data, split: SplitName) -> Scale:
    """Returns the scale of the scores on a split: accuracy comes in steps of one image, R² has no lower end."""
    if data.metric == "r2":
        return Scale(data.chance(split), high=1.0, overlap=data.overlap)
    low = data.score(0.0, split)
    return Scale(data.chance(split), low, 1.0, (1 - low) * data.step(split), overlap=data.overlap)


def diverged_seeds(history: History, trial: Trial) -> frozenset[int]:
    """Returns the seeds of a trial that diverged."""
    return frozenset(seed for seed, run in history.runs(trial).items() if history.state(run).status == "diverged")


def scores_of(
    trial: Trial, split: SplitName, finals: Mapping[int, float | None], diverged: frozenset[int], seeds: int
) -> Scores:
    """Returns the scores of a trial on a split, in the order of its seeds; a diverged seed is at chance.

    `finals` has the last score of each completed seed; a seed without one is left out. `seeds` is how many there should
    be.
    """
    data = trial.recipe.data
    scored = {seed: value for seed, value in finals.items() if value is not None}
    values = dict(sorted((scored | dict.fromkeys(diverged, data.chance(split))).items()))
    return Scores(values, seeds, score_scale(data, split), diverged)


def validation_scores(history: History, trial: Trial, answer: TrialAnswer | None = None) -> Scores:
    """Returns the validation scores of a trial's seeds that completed or diverged; a diverged seed is at chance."""
    answer = answer or history.answer(trial)
    scale = score_scale(trial.recipe.data, "val")
    return Scores(dict(answer.values), answer.asked, scale, diverged_seeds(history, trial))


def most_that_fail(failed: int, seeds: int, level: float = ALPHA) -> float:
    """Returns the largest share of all possible seeds that may fail, if `failed` of `seeds` did, as a one-sided limit.

    If none failed, it is 1 - level^(1 / seeds): 63 % for 3 seeds, 45 % for 5, 26 % for 10.
    Source: Clopper and Pearson 1934. Differs: nothing.
    """
    if failed >= seeds:
        return 1.0
    low, high = failed / seeds, 1.0
    for _ in range(60):
        share = (low + high) / 2
        terms = (math.comb(seeds, k) * share**k * (1 - share) ** (seeds - k) for k in range(failed + 1))
        low, high = (share, high) if math.fsum(terms) > level else (low, share)  # so many or fewer of them fail
    return high


def unseen_words(scores: Scores, *, refuted: bool = False) -> str:
    """Says what seeds that were not run might do: `of 5 seeds none failed; up to 45 % may`.

    If `refuted` is True, a claim came out false, so it says how many seeds may do better, as none did. It says the same
    of a trial that is not above guessing.
    """
    failed, seeds = len(scores.failed), scores.n
    if refuted or not scores.above_chance:
        return f"{plural(seeds, 'seed')} seen; up to {whole_percent(most_that_fail(0, seeds))} of all may do better"
    count = f"{failed} failed" if failed else "none failed"
    return f"of {plural(seeds, 'seed')} {count}; up to {whole_percent(most_that_fail(failed, seeds))} may"


def group_words(scores: Scores) -> str:
    """Returns words for the two groups in which seeds lie: `4 of 5 seeds at 0.98, 1 at 0.77`; empty for one group.

    Seeds that failed are called failed.
    """
    lower = scores.lower | scores.diverged
    upper = {*scores.values} - lower
    if not lower or not upper:
        return ""
    failed = scores.failed & lower

    def mean(seeds: Iterable[int]) -> str:
        return f"{fmean(scores.values[seed] for seed in seeds):.2f}"

    groups = [f"{len(lower - failed)} at {mean(lower - failed)}"] if lower - failed else []
    groups += [f"{len(failed)} failed ({mean(failed)})"] if failed else []
    return f"{len(upper)} of {plural(scores.n, 'seed')} at {mean(upper)}, {listed(groups)}"


LEAST_GAIN = 0.05
"""A seed counts in `kept` if its score lies at least this share of the way from chance to a perfect score."""


def kept(after: Scores, before: Scores) -> Scores:
    """Returns the share of its score above chance that a trial keeps, by seed: 1 if nothing changes, 0 at chance.

    A seed that was near chance before is left out, as it has nothing to keep: the share of almost 0 may be any number.
    """
    chance, high = before.scale.chance, before.scale.high
    least = max(before.scale.guessing(), chance + (LEAST_GAIN * (high - chance) if math.isfinite(high) else 0.0))
    gains = {seed: score - chance for seed, score in before.values.items() if score > least and seed in after.values}
    values = {seed: (after.values[seed] - chance) / gain for seed, gain in gains.items()}
    steps = math.hypot(after.scale.step, before.scale.step)
    scale = Scale(step=steps / min(gains.values(), default=1.0), overlap=before.scale.overlap)
    return Scores(values, before.asked, scale)
