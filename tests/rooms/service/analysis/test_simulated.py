"""1,000 simulated studies: how often a claim gets a word that it should not get, and how often one that it should."""

from collections.abc import Callable
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
from service.analysis.statistics import Scores
from service.analysis.verdicts import judge
from tests.rooms.service.analysis.test_statistics import ACCURACY

pytestmark = pytest.mark.slow
STUDIES = 1000
SEEDS = 5
MOST = int(stats.binom.ppf(0.999, STUDIES, 0.05))
"""As many hits as an error of 5 % gives by chance, once in a thousand times."""
ARMS = ("a", "b", "c", "d", "e")
Draw = Callable[[np.random.Generator], dict[str, Scores]]


def arms(means: dict[str, float], spread: float = 0.01, seeds: int = SEEDS) -> Draw:
    """Draws a study: what a seed has in common for all arms, and noise of each run, in steps of an image."""

    def draw(random: np.random.Generator) -> dict[str, Scores]:
        shared = random.normal(0, spread, seeds)
        rows = {name: mean + shared + random.normal(0, spread, seeds) for name, mean in means.items()}
        return {name: Scores(dict(enumerate(row.round(3))), seeds, ACCURACY) for name, row in rows.items()}

    return draw


def hits(claims: list[Claim], draw: Draw, word: str, seed: int = 0) -> int:
    """In how many studies one claim or more gets a word."""
    random = np.random.default_rng(seed)
    found = 0
    for _ in range(STUDIES):
        scores = draw(random)
        found += any(verdict.word == word for verdict in judge(claims, lambda claim, scores=scores: scores))
    return found


ALIKE = dict.fromkeys(ARMS, 0.8)
NOTHING_TRUE = {
    "one arm is better": [Better("b", "a")],
    "every arm is better than the first": [Better(name, "a") for name in ARMS[1:]],
    "every arm is better than the one before": [Better(who, than) for than, who in pairwise(ARMS)],
    "every arm is better and worse": [claim for name in ARMS[1:] for claim in (Better(name, "a"), Better("a", name))],
    "three rising": [Rising(("a", "b", "c"))],
    "five rising": [Rising(ARMS)],
    "a probe rising": [ProbeRising(ARMS, "direction", "left")],
    "several kinds": [Rising(ARMS), Rising(ARMS[::-1]), Better("a", "b"), Better("b", "a"), Better("c", "d")],
    "several kinds, some of which lack their scores": [Better("b", "a"), Rising(ARMS), AtLeast("none", 0.5)],
}


@pytest.mark.parametrize("claims", NOTHING_TRUE.values(), ids=NOTHING_TRUE)
@pytest.mark.parametrize("word", ["SUPPORTED", "REFUTED"])
def test_of_studies_without_a_difference_few_decide(claims, word):
    assert hits(claims, arms(ALIKE), word) <= MOST


@pytest.mark.parametrize("seeds", [3, 10])
def test_few_and_many_seeds_alike(seeds):
    claims = [*(Better(name, "a") for name in ARMS[1:]), Rising(ARMS)]
    assert hits(claims, arms(ALIKE, seeds=seeds), "SUPPORTED") <= MOST


EDGE = 0.01
AT_THE_EDGE = {
    "no worse": ([NoWorse("b", "a", EDGE)], {"a": 0.8, "b": 0.8 - EDGE}),
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
@pytest.mark.parametrize("word", ["SUPPORTED", "REFUTED"])
def test_at_the_edge_of_a_claim_few_decide(claims, means, word):
    assert hits(claims, arms(means, spread=0.004), word) <= MOST


TRUE = {
    "better": ([Better("b", "a")], {"a": 0.8, "b": 0.84}),
    "no worse": ([NoWorse("b", "a", 0.04)], {"a": 0.8, "b": 0.8}),
    "rising": ([Rising(("a", "b", "c"))], {"a": 0.8, "b": 0.82, "c": 0.84}),
}


@pytest.mark.parametrize(("claims", "means"), TRUE.values(), ids=TRUE)
def test_what_is_true_is_mostly_supported(claims, means):
    assert hits(claims, arms(means), "SUPPORTED") > 0.8 * STUDIES
    assert hits(claims, arms(means), "REFUTED") == 0
