"""Which differences a number of seeds can detect: the smallest one that a paired test is likely to find."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from search_spaces.claim import Better
from search_spaces.roles import CONFIRMED
from search_spaces.study import Edition, Plan
from service.analysis.best import confirmed_points
from service.analysis.findings import finding
from service.analysis.multiple_testing import difference
from service.analysis.scores import score_scale, validation_scores
from service.analysis.statistics import ALPHA, FEWEST, Estimate, Scale, Scores, share_of
from service.analysis.verdicts import departure
from service.planning.stopping import quantile
from service.storage.history import History
from trainables.data import Data
from trainables.recipe import Recipe

POWER = 0.8
"""The probability with which a test finds the smallest difference that a sentence names."""
GUESS = 0.02
"""The least standard deviation that is guessed for paired differences of accuracies, before any trial has shown one."""
PLAIN = Estimate(FEWEST, 0.0)
"""A difference of scores that are not rounded, on fixed images, with seeds that are not folds."""


def smallest_difference(
    pairs: int,
    std: float,
    *,
    alpha: float = ALPHA,
    power: float = POWER,
    like: Estimate = PLAIN,
) -> float | None:
    """Returns the smallest true difference that a two-sided paired t-test finds with probability `power`.

    It returns None below 3 pairs of seeds.

    Args:
        pairs: The number of paired seeds.
        std: The standard deviation of the paired differences.
        alpha: The level of the test.
        power: The probability with which the difference is to be found.
        like: A difference whose rounding, draws of images and overlap of folds are taken.

    Source: Cohen 1988, chapter 2, with the noncentral t distribution. Differs: the test that rejects on the wrong side
    is left out; it adds less than 0.1 % of power.
    """
    if pairs < FEWEST:
        return None
    error, df = like.of_more(pairs, std)
    low, high = 0.0, 1.0
    while _power(df, high, alpha) < power:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _power(df, middle, alpha) < power else (low, middle)
    return high * error


def seeds_needed(
    away: float, std: float, most: int, *, alpha: float = ALPHA, power: float = POWER, like: Estimate = PLAIN
) -> int | None:
    """Returns the fewest pairs with which a true difference of `away` is found with probability `power`.

    It returns None if `most` pairs are too few. `std`, `alpha` and `like` are those of `smallest_difference`.
    Units: pairs of seeds.
    """
    for pairs in range(FEWEST, most + 1):
        error, df = like.of_more(pairs, std)
        if (_power(df, abs(away) / error, alpha) if error else float(away != 0)) >= power:
            return pairs
    return None


def _power(df: int, away: float, alpha: float) -> float:
    """Returns the probability that a test with `df` degrees of freedom finds a mean `away` standard errors above 0."""
    from scipy.special import nctdtr  # here, for `locus status` must start without scipy

    return float(1 - nctdtr(df, away, quantile(1 - alpha / 2, df)))


def paired_spread(trials: Mapping[str, Scores], plan: Plan) -> float | None:
    """Returns the standard deviation of paired differences so far, pooled over the pairs that the study compares.

    An arm is compared with the baseline, or the arm that stands for it; a point of a search with the first point. It
    returns None before a trial has two scores. `trials` has the scores of each trial, by name.
    """
    spread = {name: scores for name, scores in trials.items() if scores.n > 1}
    first = next(iter(spread), "")
    others = (name for name in spread if name != first)
    partners = plan.partners(spread) if plan.arms else dict.fromkeys(others, first)
    pairs = [(spread[name], spread[other]) for name, other in partners.items()]
    gaps = [gap for who, than in pairs if (gap := difference(who, than)) is not None]
    spreads = [(gap.n - 1, gap.spread) for gap in gaps if gap.spread is not None]
    if spreads:
        return math.sqrt(sum(df * std**2 for df, std in spreads) / sum(df for df, _ in spreads))
    alone = spread[first].estimate if spread else None
    return math.sqrt(2) * alone.spread if alone and alone.spread is not None else None


def guessed_spread(scale: Scale) -> float:
    """Returns the guessed standard deviation of paired differences, before any is known; fewer images make it larger.

    The guess takes it as luck whether a trial is right on an image, at a score half-way from chance to a perfect one.
    Source: the binomial distribution. Differs: it is at least GUESS, which more images do not make smaller.
    """
    if not scale.step:
        return GUESS
    width, right = scale.high - scale.low, (scale.chance + scale.high) / 2 - scale.low
    return max(GUESS, math.sqrt(2 * right * (width - right) * scale.step / width))


def power_sentence(
    pairs: int, spread: float | None, scale: Scale, images: int = 0, tests: int = 1, look: int = 1
) -> str:
    """Returns a sentence that says which differences a study's seeds can detect, in the tests that it makes.

    Args:
        pairs: The number of paired seeds.
        spread: The `paired_spread` of the scores so far.
        scale: The scale of the scores.
        images: How many test images the scale counts; 0 if it counts none.
        tests: How many differences are tested together: the surest of them must pass the smallest level (Holm).
        look: The number of the look, one time at which verdicts are computed.
    """
    if pairs < FEWEST:
        return str(finding("power.none", seeds=pairs, fewest=FEWEST))
    std = guessed_spread(scale) if spread is None else spread
    like = replace(PLAIN, overlap=scale.overlap)
    least = smallest_difference(pairs, std, alpha=ALPHA * share_of(look) / tests, like=like)
    assert least is not None
    if least >= scale.high - scale.chance:
        return str(finding("power.no difference", seeds=pairs))
    sentence = finding(
        "power.guessed" if spread is None else "power.measured",
        seeds=pairs,
        least=least,
        counted=round(least / (scale.high - scale.low) * images),
        images=images or None,
        tests=finding("part.tests", others=tests - 1) if tests > 1 else finding("part.one test"),
        power=POWER,
        std=std,
    )
    return str(sentence)


def tests_together(edition: Edition, points: int) -> int:
    """Returns how many tests an edition, a study at one budget, makes together.

    In a race or a search it tests all pairs of arms or of confirmed points, since any may be the best; else the claims,
    and each arm beside the baseline. `points` is how many points are confirmed.
    """
    study, judged = edition.study, departure(edition)
    if not study.plan.arms:
        return max(1, points * (points - 1) // 2)
    arms = len(study.plan.arms)
    if study.plan.race:
        return max(1, arms * (arms - 1) // 2)
    claims = study.claims if judged is None or judged.told else ()
    claimed = {frozenset(claim.names) for claim in claims if isinstance(claim, Better)}
    partners = study.plan.partners(study.plan.arms).items()
    return max(1, len(claims) + sum({name, other} not in claimed for name, other in partners))


def fewest_tested(recipes: Iterable[Recipe]) -> Data:
    """Returns the data with the fewest test images: a difference that can be found there can be found on the others."""
    return min((recipe.data for recipe in recipes), key=lambda data: data.image_counts.test)


def counted_images(data: Data) -> int:
    """Returns how many test images an accuracy counts; 0 for other scores, such as those that weigh classes."""
    return data.image_counts.test if data.metric == "accuracy" else 0


def seeds_sentence(history: History) -> str:
    """Returns a line of `locus plan`: which differences the seeds can detect, judged by the validation scores so far.

    In a search it takes the scores of the confirmed points, if there are any, because verdicts are on these.
    """
    edition, plan, look = history.edition, history.edition.study.plan, history.looks
    confirmed, spread = confirmed_points(history), None
    for trials in (confirmed, history.of("trial")):
        scores = {trial.name: validation_scores(history, trial) for trial in trials}
        spread = paired_spread(scores, plan) if spread is None else spread
    data = fewest_tested(edition.recipes)
    tests = tests_together(edition, len(confirmed) or min(CONFIRMED, history.trials_asked))
    scale = score_scale(data, "test")
    return f"{power_sentence(history.seeds, spread, scale, counted_images(data), tests, look)} {look_words(look)}"


def look_words(look: int) -> str:
    """Says which look this is (a time at which verdicts are computed), and at which levels it and the next one test."""
    now, after = ALPHA * share_of(look), ALPHA * share_of(look + 1)
    return str(finding("look", look=look, now=now, all=ALPHA, next=look + 1, after=after))
