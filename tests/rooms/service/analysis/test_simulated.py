"""1,000 simulated studies: how often a claim gets a word that it should not get, and how often one that it should."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from search_spaces.claim import (
    AtChance,
    AtLeast,
    Better,
    Claim,
    Equivalent,
    NoWorse,
    ProbeBetween,
    ProbeRising,
    Rising,
)
from tests.rooms.by_hand import judge
from tests.rooms.service.analysis.test_statistics import scores

pytestmark = pytest.mark.slow
STUDIES = 1000
MOST = int(stats.binom.ppf(0.999, STUDIES, 0.05 * 0.75 / 2))
"""As many hits as one side of the first look's level gives by chance, once in a thousand times."""
ARMS = ("a", "b", "c", "d", "e")


def decided(claims: list[Claim], means: dict[str, float], spread: float = 0.01, seeds: int = 5) -> tuple[int, int]:
    """In how many studies one claim or more is supported, and refuted.

    A study has what a seed has in common for all arms, and noise of each run, in steps of an image.
    """
    random, words = np.random.default_rng(0), []
    for _ in range(STUDIES):
        shared = random.normal(0, spread, seeds)
        rows = {name: mean + shared + random.normal(0, spread, seeds) for name, mean in means.items()}
        trials = {name: scores(*map(float, row.round(3))) for name, row in rows.items()}
        words.append({verdict.word for verdict in judge(claims, lambda claim, trials=trials: trials)})
    return sum("SUPPORTED" in found for found in words), sum("REFUTED" in found for found in words)


EVERY = [Better(name, "a") for name in ARMS[1:]]
NOTHING_TRUE: dict[str, list[Claim]] = {
    "one arm is better": [Better("b", "a")],
    "every arm is better than the first, and all rise": [*EVERY, Rising(ARMS)],
    "every arm is better than the one before": [Better(who, than) for than, who in pairwise(ARMS)],
    "every arm is better and worse": [*EVERY, *(Better("a", name) for name in ARMS[1:])],
    "a probe rising": [ProbeRising(ARMS, "direction", "left")],
    "several kinds, some of which lack their scores": [Better("b", "a"), Rising(ARMS[::-1]), AtLeast("none", 0.5)],
}


@pytest.mark.parametrize("claims", NOTHING_TRUE.values(), ids=NOTHING_TRUE)
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_of_studies_without_a_difference_few_decide(claims, seeds):
    assert max(decided(claims, dict.fromkeys(ARMS, 0.8), seeds=seeds)) <= MOST


EDGE = 0.01
AT_THE_EDGE: dict[str, tuple[list[Claim], dict[str, float]]] = {
    "several no worse": ([NoWorse(name, "a", EDGE) for name in "bcd"], {"a": 0.8} | dict.fromkeys("bcd", 0.8 - EDGE)),
    "equal, above": ([Equivalent("b", "a", EDGE)], {"a": 0.8, "b": 0.8 + EDGE}),
    "equal, below": ([Equivalent("b", "a", EDGE)], {"a": 0.8, "b": 0.8 - EDGE}),
    "at chance": ([AtChance("a", EDGE)], {"a": 0.5 + EDGE}),
    "a probe": ([ProbeBetween("a", "direction", "accuracy", 0.8, None)], {"a": 0.8}),
    "a probe between": ([ProbeBetween("a", "direction", "accuracy", 0.7, 0.8)], {"a": 0.8}),
    "better by a margin": ([Better("b", "a", EDGE)], {"a": 0.8, "b": 0.8 + EDGE}),
    "rising by a margin": ([Rising(("a", "b", "c"), EDGE)], {"a": 0.8, "b": 0.8 + EDGE, "c": 0.8 + 2 * EDGE}),
}


@pytest.mark.parametrize(("claims", "means"), AT_THE_EDGE.values(), ids=AT_THE_EDGE)
def test_at_the_edge_of_a_claim_few_decide(claims, means):
    assert max(decided(claims, means, spread=0.004)) <= MOST


TRUE: dict[str, tuple[list[Claim], dict[str, float]]] = {
    "better": ([Better("b", "a")], {"a": 0.8, "b": 0.84}),
    "no worse": ([NoWorse("b", "a", 0.04)], {"a": 0.8, "b": 0.8}),
    "rising": ([Rising(("a", "b", "c"))], {"a": 0.8, "b": 0.82, "c": 0.84}),
}


@pytest.mark.parametrize(("claims", "means"), TRUE.values(), ids=TRUE)
def test_what_is_true_is_mostly_supported(claims, means):
    supported, refuted = decided(claims, means)
    assert (supported > 0.8 * STUDIES, refuted) == (True, 0)
