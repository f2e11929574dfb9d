"""Test images: a few draws of a generator, and one fixed set, of which it is known which ones each seed has right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.stats import norm

from search_spaces.claim import AtLeast, Better
from service.analysis.comparison import unpaired
from service.analysis.multiple_testing import together
from service.analysis.statistics import Scale, Scores
from tests.calibration.rows import Row
from tests.calibration.seeds import IMAGES, Array, Found, covers, decided, repeated, scored

REPETITIONS = 2000
DRAWS, ACCURACY = 5, 0.9
SEEDS = (3, 5, 10)
OF_IMAGE, OF_ARM, OF_SEED = 0.6, 0.1, 0.01
"""Shares of the variance of what decides whether an image is right: of the image, of what an arm makes of it, and of
the seed; the rest is of a run and an image. Two seeds of an arm agree on 90 % of the images, two arms on 88 %."""


def rows(repetitions: int) -> Iterator[Row]:
    """All rows."""
    for share in (0.0, 0.5, 2.0):
        for n in SEEDS:
            yield from draws(repetitions, n, share)
    for n in SEEDS:
        yield from draws_near_one(repetitions, n)
    for images, n in ((60, 3), (60, 5), (60, 10), (200, 5), (400, 10)):
        yield from fixed_images(repetitions, images, n)


def drawn(scores: Array) -> Scores:
    """A trial with a score for each seed and draw of images. Shapes: (seeds, draws)."""
    further = {seed: tuple(map(float, row[1:])) for seed, row in enumerate(scores)}
    return replace(scored(scores[:, 0]), further=further)


def draws(repetitions: int, n: int, share: float) -> Iterator[Row]:
    """Two arms that are equal over all images. Each draw favors one of them for all its seeds."""

    def arm(rng: np.random.Generator) -> Scores:
        seeds, of_draws = rng.standard_normal((n, 1)), rng.standard_normal(DRAWS)
        return drawn(ACCURACY + 0.004 * (seeds + share * of_draws) + 0.002 * rng.standard_normal((n, DRAWS)))

    def study(rng: np.random.Generator) -> Found:
        arms = {"a": arm(rng), "b": arm(rng)}
        gap = unpaired(arms["a"], arms["b"])
        assert gap is not None
        alone = together({"b": (arms["a"], arms["b"], gap)})["b"].significant
        return {
            "Better of equal arms decided": decided(Better("a", "b"), arms),
            "equal arms told apart by Welch's test": alone,
            "interval over images": covers(arms["a"], ACCURACY),
        }

    what = f"draws move an arm by {share:g} of a seed, n {n:2}"
    yield from repeated(what, repetitions, study, [n, round(10 * share)])


def draws_near_one(repetitions: int, n: int, median: float = 0.005, sigma: float = 0.7) -> Iterator[Row]:
    """Skewed errors, of which each draw of images finds a few."""

    def study(rng: np.random.Generator) -> Found:
        wrong = np.minimum(median * np.exp(sigma * rng.standard_normal((n, 1))), 0.5)
        arms = {"a": drawn(1 - rng.binomial(IMAGES, wrong, (n, DRAWS)) / IMAGES)}
        return {
            "typical seed, AtLeast decided": decided(AtLeast("a", 1 - median), arms),
            "typical seed, interval": covers(arms["a"], 1 - median),
        }

    yield from repeated(f"draws near 1, n {n:2}", repetitions, study, n)


def right(rng: np.random.Generator, n: int, images: int) -> Array:
    """Which images each seed of two equal arms has right. Shapes: (arms, seeds, images)."""
    rest = 1 - OF_IMAGE - OF_ARM - OF_SEED
    shapes = {(1, 1, images): OF_IMAGE, (2, 1, images): OF_ARM, (2, n, 1): OF_SEED, (2, n, images): rest}
    return norm.ppf(ACCURACY) + sum(part**0.5 * rng.standard_normal(shape) for shape, part in shapes.items()) > 0


def fixed_images(repetitions: int, images: int, n: int) -> Iterator[Row]:
    """One test set for all seeds, a sample of the images that there are; and what seeds alone would say."""
    scale = Scale(0.5, 0.0, 1.0, 1 / images)

    def study(rng: np.random.Generator) -> Found:
        both = right(rng, n, images)
        alone = {name: scored(answers.mean(1), scale) for name, answers in zip("ab", both, strict=True)}
        arms = {
            name: replace(alone[name], right={seed: row.astype(float) for seed, row in enumerate(answers)})
            for name, answers in zip("ab", both, strict=True)
        }
        return {
            "Better of equal arms decided": decided(Better("a", "b"), arms),
            "interval over images": covers(arms["a"], ACCURACY),
            "Better of equal arms decided by seeds alone, no bar": decided(Better("a", "b"), alone),
            "interval of seeds alone, no bar": covers(alone["a"], ACCURACY),
        }

    yield from repeated(f"one test set of {images} images, n {n:2}", repetitions, study, [images, n])
