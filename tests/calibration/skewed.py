"""Skewed seeds: crowded at the upper end, heavy tails, groups, R² and probes; and few, equal or perfect seeds.

No test of three to ten seeds holds for the mean of a skewed score without knowing its tail, so rows of such means have
no bar. The rows of the typical seed beside them say what holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from search_spaces.claim import AtLeast, Better, Claim, Equivalent, NoWorse, ProbeBetween
from service.analysis.probes import SCALES
from service.analysis.statistics import Scale, Scores
from tests.calibration.rows import Row
from tests.calibration.seeds import (
    SCALE,
    Found,
    Kind,
    beta,
    covers,
    decided,
    lognormal,
    normal,
    repeated,
    scored,
    supported,
    word,
)  # fmt: skip

REPETITIONS = 2000
SEEDS = (3, 5, 10)
R2 = Scale(0.0, high=1.0)
FEW_IMAGES = Scale(0.5, 0.0, 1.0, 1 / 100)
MARGIN = 0.03


def rows(repetitions: int) -> Iterator[Row]:
    """All rows."""
    for n in SEEDS:
        yield from one_arm(repetitions, beta(0.97, 30), n)
    few = replace(beta(0.97, 30, scale=FEW_IMAGES), name="beta(0.97, 30), 100 images")
    for kind in (beta(0.9, 15), lognormal(0.005, 1.2), few):
        yield from one_arm(repetitions, kind, 3)
    for n in (3, 10):
        yield from two_arms(repetitions, beta(0.97, 30), beta(0.97, 30, MARGIN), n)
    for kind in (beta(0.9, 6), beta(0.97, 30)):
        yield from beside_a_steady_one(repetitions, kind, 3)
    yield from tails(repetitions)
    yield from determination(repetitions)
    yield from probes(repetitions)
    yield from few_seeds(max(1, repetitions // 10))


def one_arm(repetitions: int, kind: Kind, n: int, claim: type[AtLeast] | None = AtLeast) -> Iterator[Row]:
    """The mean and the typical seed of a skewed score."""

    def least(value: float) -> Claim:
        return claim("a", value) if claim else ProbeBetween("a", "direction", "left", low=value, high=None)

    def study(rng: np.random.Generator) -> Found:
        arms = {"a": kind.scores(rng, n)}
        return {
            "mean of skewed seeds, at least it SUPPORTED, no bar": supported(least(kind.mean), arms),
            "mean of skewed seeds, interval, no bar": covers(arms["a"], kind.mean),
            "typical seed, at least it decided": decided(least(kind.typical), arms),
            "typical seed, interval": covers(arms["a"], kind.typical),
        }

    yield from repeated(f"{kind.name}, n {n:2}", repetitions, study, [n, len(kind.name)])


def two_arms(repetitions: int, kind: Kind, lower: Kind, n: int) -> Iterator[Row]:
    """Two skewed arms that are alike, and one that is lower by a margin."""

    def study(rng: np.random.Generator) -> Found:
        arms = {"a": kind.scores(rng, n), "b": kind.scores(rng, n), "c": lower.scores(rng, n)}
        return {
            "Better of equal arms decided": decided(Better("a", "b"), arms),
            "NoWorse at its edge SUPPORTED": supported(NoWorse("c", "a", MARGIN), arms),
            "Equivalent at its edge SUPPORTED": supported(Equivalent("c", "a", MARGIN), arms),
        }

    yield from repeated(f"{kind.name}, n {n:2}", repetitions, study, [2, n])


def beside_a_steady_one(repetitions: int, kind: Kind, n: int) -> Iterator[Row]:
    """A variable arm beside a steady one of the same typical seed, or of the same mean."""
    bar = ", no bar" if kind.mean < 0.95 else ""  # three seeds are too few for the longer tail

    def study(rng: np.random.Generator) -> Found:
        alike, of_mean = (normal(center, 0.005).scores(rng, n) for center in (kind.typical, kind.mean))
        arms = {"a": kind.scores(rng, n), "typical": alike, "mean": of_mean}
        return {
            f"steady arm of equal typical seed, Better decided{bar}": decided(Better("a", "typical"), arms),
            "mean of skewed seeds, steady arm of equal mean, Better, no bar": supported(Better("a", "mean"), arms),
        }

    yield from repeated(f"{kind.name}, n {n:2}", repetitions, study, [3, n])


def _groups(levels: tuple[float, ...]) -> Kind:
    """Seeds at a few levels, equally often."""
    return Kind(f"groups {levels}", lambda rng, seeds: rng.choice(levels, seeds) + 0.01 * rng.standard_normal(seeds))


def tails(repetitions: int) -> Iterator[Row]:
    """Heavy tails, and groups."""
    heavy = Kind("t with 3 df", lambda rng, seeds: 0.8 + 0.01 * rng.standard_t(3, seeds))
    for kind in (heavy, _groups((0.62, 0.8, 0.95)), _groups((0.82, 0.9))):

        def study(rng: np.random.Generator, kind: Kind = kind) -> Found:
            arms = {"a": kind.scores(rng, 5), "b": kind.scores(rng, 5)}
            bar = "" if kind is heavy else ", no bar"  # five seeds may all be of one group
            return {
                "Better of equal arms decided": decided(Better("a", "b"), arms),
                f"interval of the mean{bar}": covers(arms["a"], kind.mean),
            }

        yield from repeated(f"{kind.name}, n  5", repetitions, study, len(kind.name))


def determination(repetitions: int) -> Iterator[Row]:
    """R²: in the middle, near 1, and below 0 with a long lower tail."""
    below = Kind("R2 below 0", lambda rng, seeds: 1 - 1.1 * np.exp(0.5 * rng.standard_normal(seeds)), R2)
    near = replace(lognormal(0.02, 0.7, R2), name="R2 near 1")
    for kind, n in ((near, 3), (near, 10), (below, 3)):
        yield from one_arm(repetitions, kind, n)
    steady = normal(0.6, 0.05, R2)
    falls = Kind("", lambda rng, seeds: np.where(rng.random(seeds) < 0.2, 0.0, steady.draw(rng, seeds)), R2)

    def study(rng: np.random.Generator) -> Found:
        arms = {name: steady.scores(rng, 3) for name in "ab"}
        fall = {name: falls.scores(rng, 3) for name in "ab"}
        return {
            "AtLeast(the mean) decided": decided(AtLeast("a", 0.6), arms),
            "Better of equal arms decided": decided(Better("a", "b"), arms),
            "a fifth falls to 0, Better of equal arms decided": decided(Better("a", "b"), fall),
        }

    yield from repeated("R2 of .6, n  3", repetitions, study)


def probes(repetitions: int) -> Iterator[Row]:
    """Accuracies of a probe: in the middle, and near 1."""
    near = replace(beta(0.97, 30, scale=SCALES["direction"]), name="probe near 1")
    middle = replace(normal(0.7, 0.05, SCALES["direction"]), name="probe of .7")
    for kind, n in ((near, 3), (near, 10), (middle, 3)):
        yield from one_arm(repetitions, kind, n, None)


def few_seeds(repetitions: int) -> Iterator[Row]:
    """One or two seeds decide nothing; equal and perfect ones do not say more than their images show."""
    claims = (AtLeast("a", 0.6), Better("a", "b"), NoWorse("a", "b", 0.1))

    def study(rng: np.random.Generator) -> Found:
        two = {"a": normal(0.9).scores(rng, int(rng.integers(1, 3))), "b": normal().scores(rng, 2)}
        perfect: dict[str, Scores] = {name: scored(np.ones(5), SCALE) for name in "ab"}
        near = perfect | {"b": scored(np.array([1, 1, 1, 1, 1 - SCALE.step]))}
        return {
            "two seeds or one decide": any(word(claim, two) != "INCONCLUSIVE" for claim in claims),
            "one image tells two perfect arms apart": decided(Better("a", "b"), near),
            "perfect seeds reach at least 1": supported(AtLeast("a", 1.0), perfect),
            "interval of perfect seeds, with a width": not math.isclose(*perfect["a"].interval),
        }

    yield from repeated("few, equal or perfect seeds", repetitions, study)
