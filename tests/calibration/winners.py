"""The best of several equal arms, chosen by validation: what tests of the same runs say of it, and fresh seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from search_spaces.claim import AtLeast
from service.analysis.multiple_testing import compare_best
from service.analysis.statistics import ALPHA
from tests.calibration.rows import Row
from tests.calibration.seeds import Found, covers, normal, repeated, scored, supported, told_apart

REPETITIONS = 2000
MEAN, SPREAD, ALIKE = 0.8, 0.02, 0.9
"""`ALIKE`: how validation and test scores of a run correlate."""
CASES = ((4, 10, 1), (18, 5, 4), (40, 3, 20))
"""Arms and seeds, and of how many repetitions one is done: 40 arms have 780 pairs."""


def rows(repetitions: int) -> Iterator[Row]:
    """All rows."""
    for arms, n, of in CASES:

        def study(rng: np.random.Generator, arms: int = arms, n: int = n) -> Found:
            runs = rng.standard_normal((arms, n))
            validation = ALIKE * runs + math.sqrt(1 - ALIKE**2) * rng.standard_normal((arms, n))
            trials = {f"{arm}": scored(MEAN + SPREAD * row) for arm, row in enumerate(runs)}
            best = f"{validation.mean(1).argmax()}"
            fresh = {"best": normal(MEAN, SPREAD).scores(rng, n)}
            others = {name: (scores, trials["0"]) for name, scores in trials.items() if name != "0"}
            gaps = compare_best(best, trials)
            return {
                "told apart from another one": any(gap.significant for gap in gaps.values()),
                "some arm told apart from the baseline": told_apart(others),
                "interval of the winner, for so many arms": covers(trials[best], MEAN, 1 - ALPHA / arms),
                "interval of the winner, as if alone, no bar": covers(trials[best], MEAN),
                "on fresh seeds, AtLeast(the mean) SUPPORTED": supported(AtLeast("best", MEAN), fresh),
            }

        yield from repeated(f"best of {arms} equal arms, n {n:2}", max(2, repetitions // of), study, [arms, n])
