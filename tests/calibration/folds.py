"""Differences where seeds are folds of the same images: logistic regressions on Gaussian data.

Each of two arms sees features of its own. They are of the same kind, so neither arm is better over draws of images.
With given test images one is, and by how much is known from many more folds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.analysis.multiple_testing import difference
from service.analysis.statistics import ALPHA, Scale, Scores, share_of
from tests.calibration.rows import Row, share
from trainables.data.images_torch import dealt

REPETITIONS = 1000
FOLDS, FEATURES, APART = 5, 4, 1.0
IMAGES, TESTS = 200, 100
MANY = 20
"""How many times images are dealt to know the true difference over all folds of them."""
STEPS = 8
"""Newton's steps of a regression."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Images:
    """Features and labels. Shapes: features (N, 2 * FEATURES), labels (N,) of 0 and 1."""

    features: Array
    labels: NDArray[np.int64]

    @classmethod
    def draw(cls, rng: np.random.Generator, count: int) -> Images:
        """Two Gaussian classes, an even number of images each."""
        labels = np.arange(count) % 2
        means = APART * (2.0 * labels[:, None] - 1) / np.sqrt(FEATURES)
        return cls(means + rng.standard_normal((count, 2 * FEATURES)), labels)

    def seen(self, arm: int) -> Array:
        """What an arm sees of them, and 1 for the constant."""
        own = self.features[:, arm * FEATURES : (arm + 1) * FEATURES]
        return np.column_stack([own, np.ones(len(own))])


def scores(images: Images, tests: Images, arm: int, seeds: int, deal: int) -> tuple[Array, Array]:
    """The accuracy of each seed's regression on its fold, and on the tests. `deal`: of the folds. Shapes: (seeds,)."""
    folds = np.stack([dealt(images.labels, FOLDS, deal, time) for time in range(-(-seeds // FOLDS))])
    left_out = (folds[:, None] == np.arange(FOLDS)[:, None]).reshape(-1, IMAGES)[:seeds]
    x, y = images.seen(arm), images.labels
    weights = _fitted(x, y, ~left_out)
    right = ((weights @ x.T > 0) == y) & left_out
    return right.sum(1) / left_out.sum(1), ((weights @ tests.seen(arm).T > 0) == tests.labels).mean(1)


def _fitted(x: Array, y: NDArray[np.int64], used: NDArray[np.bool_]) -> Array:
    """Logistic regressions with a small ridge, on the images that each uses. Shapes: used (S, N), to (S, D)."""
    found = np.zeros((len(used), x.shape[1]))
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-found @ x.T))
        slope = (used * (p - y)) @ x + found
        curve = np.einsum("sn,nd,ne->sde", used * p * (1 - p), x, x) + np.eye(x.shape[1])
        found -= np.linalg.solve(curve, slope[..., None])[..., 0]
    return found


def rows(repetitions: int) -> Iterator[Row]:
    """How often one of two equal arms is better by its folds, or by the test images once the true difference is out."""
    for seeds in (3, 5, 10, 20):
        by_folds, by_tests = [], []
        for number in range(repetitions):
            rng = np.random.default_rng([FOLDS, seeds, number])
            images, tests = Images.draw(rng, IMAGES), Images.draw(rng, TESTS)
            own = [scores(images, tests, arm, seeds, number) for arm in (0, 1)]
            many = [scores(images, tests, arm, MANY * FOLDS, repetitions + number)[1].mean() for arm in (0, 1)]
            by_folds.append(_better([one[0] for one in own], IMAGES / FOLDS, 0.0))
            by_tests.append(_better([one[1] for one in own], TESTS, float(many[0] - many[1])))
        yield share(f"{seeds:2} seeds, {FOLDS} folds: of two equal arms one better by its folds", by_folds, 0.06)
        yield share(f"{seeds:2} seeds, {FOLDS} folds: by these test images one better than it is", by_tests, 0.06)


def _better(arms: list[Array], images: float, truth: float) -> bool:
    """Whether the first arm is found to be better by more than the truth, at the first look."""
    scale = Scale(0.5, 0.0, 1.0, 1 / images, overlap=1 / (FOLDS - 1))
    one, other = (Scores(dict(enumerate(map(float, own))), len(own), scale) for own in arms)
    found = difference(one, other)
    p = found and found.p_above(truth)
    return p is not None and 2 * p < ALPHA * share_of(1)
