"""Seeds around a mean: verdicts, tables and intervals where nothing is odd, unequal spreads, pairs that correlate."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.stats import t as student

from search_spaces.claim import AtLeast, Better, Equivalent
from service.analysis.statistics import ALPHA, Scale
from tests.calibration.rows import Row
from tests.calibration.seeds import Found, covers, decided, normal, repeated, scored, supported, told_apart
from tests.rooms.by_hand import judge

REPETITIONS = 2000
FEW_IMAGES = Scale(0.5, 0.0, 1.0, 1 / 100)
SPREAD = 0.02
STEADY, VARIABLE = 0.005, 0.05


def rows(repetitions: int) -> Iterator[Row]:
    """All rows."""
    for n in (3, 10):
        yield from equal_arms(repetitions, n)
    yield from equal_arms(repetitions, 5, FEW_IMAGES)
    yield from claims_together(repetitions)
    yield from unequal_spreads(repetitions)
    yield from pairs_that_correlate(repetitions)
    for n in (3, 5):
        yield from power(repetitions, n)


def equal_arms(repetitions: int, n: int, scale: Scale | None = None) -> Iterator[Row]:
    """Five equal arms."""
    kind = normal(scale=scale) if scale else normal()

    def study(rng: np.random.Generator) -> Found:
        arms = {name: kind.scores(rng, n) for name in "abcde"}
        return {
            "AtLeast(the mean) decided": decided(AtLeast("a", 0.8), arms),
            "Better of equal arms decided": decided(Better("a", "b"), arms),
            "table of 4 differences, one significant": told_apart({name: (arms[name], arms["a"]) for name in "bcde"}),
            "interval of a mean": covers(arms["a"], 0.8),
        }

    yield from repeated(f"{1 / kind.scale.step:g} images, n {n:2}", repetitions, study, n)


def claims_together(repetitions: int) -> Iterator[Row]:
    """Four claims of which none is true and none is false: all are tested together."""
    claims = [Better("b", "a"), Better("c", "a"), Better("d", "a"), AtLeast("a", 0.8)]

    def study(rng: np.random.Generator) -> Found:
        arms = {name: normal().scores(rng, 3) for name in "abcd"}
        verdicts = judge(claims, lambda _: arms)
        return {"one decided": any(one.word in ("SUPPORTED", "REFUTED") for one in verdicts)}

    yield from repeated("four claims of equal arms, n  3", repetitions, study)


def unequal_spreads(repetitions: int) -> Iterator[Row]:
    """A steady arm beside a variable one of the same mean."""
    for n in (3, 10):

        def study(rng: np.random.Generator, n: int = n) -> Found:
            arms = {"a": normal(0.8, VARIABLE).scores(rng, n), "b": normal(0.8, STEADY).scores(rng, n)}
            return {"Better of equal arms decided": decided(Better("a", "b"), arms)}

        yield from repeated(f"sd {VARIABLE} beside {STEADY}, n {n:2}", repetitions, study, n)


def pairs_that_correlate(repetitions: int) -> Iterator[Row]:
    """What a seed does to all arms, and the opposite: in both, the difference is what is tested."""
    for r in (0.9, -0.9):

        def study(rng: np.random.Generator, r: float = r) -> Found:
            one, other = rng.standard_normal((2, 5))
            a, b = 0.8 + SPREAD * one, 0.8 + SPREAD * (r * one + math.sqrt(1 - r * r) * other)
            equal, higher = {"a": scored(a), "b": scored(b)}, {"a": scored(a + 1.5 * SPREAD), "b": scored(b)}
            return {
                "Better of equal arms decided": decided(Better("a", "b"), equal),
                "power at 1.5 sd of a seed, no bar": supported(Better("a", "b"), higher),
            }

        yield from repeated(f"pairs correlate by {r}, n  5", repetitions, study, round(10 * r + 20))


LOST = 0.15
"""What power a first look may lose: most for an equivalence of three seeds."""


def power(repetitions: int, n: int) -> Iterator[Row]:
    """The power that a first look on both scales loses beside plain t-tests at the whole level."""
    rng, half = np.random.default_rng(n), SPREAD / math.sqrt(2)  # pairs whose difference has the deviation SPREAD
    for claim, higher in ((Better("a", "b"), 2 * SPREAD), (Equivalent("a", "b", 3 * SPREAD), 0.0)):
        pairs = [0.8 + half * rng.standard_normal((2, n)) + [[higher], [0.0]] for _ in range(repetitions)]
        ours = np.array([supported(claim, {"a": scored(a), "b": scored(b)}) for a, b in pairs])
        plain = np.array([_plain(a - b, claim.margin, isinstance(claim, Equivalent)) for a, b in pairs])
        name = f"n {n:2}: {type(claim).__name__}, power lost of {plain.mean():.2f}"
        error = math.sqrt((plain & ~ours).mean() / repetitions)
        yield Row(name, float(plain.mean() - ours.mean()), LOST, error=error)


def _plain(gaps: np.ndarray, margin: float, both: bool) -> bool:
    """Whether Student's interval of a difference lies inside a margin."""
    half = student.ppf(1 - ALPHA / 2, len(gaps) - 1) * gaps.std(ddof=1) / math.sqrt(len(gaps))
    return gaps.mean() - half > -margin and (not both or gaps.mean() + half < margin)
