"""The distance probe: how well does the difference of two codes say the offset of their positions?"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from trainables.encodings.encoding import Grid
from trainables.probes.inputs.arrays import codes_on, places
from trainables.probes.inputs.folds import FoldKind, split
from trainables.probes.inputs.subject import Subject, no_code
from trainables.recipe.findings import Findings

SMALLEST = 1e-6
"""Directions of the features with a smaller share of the largest singular value are rounding, and left out."""


def distance(codes: Any, grid: Grid, folds: FoldKind = "positions", seed: int = 0) -> float:
    """Returns the mean R^2 over folds of a linear regression of the offset (dx, dy) of i and j from p_i - p_j.

    R^2 is that of the test pairs, the mean of both coordinates; a coordinate that does not vary in a fold is left out.
    Features are standardized. A code with more channels than positions fits the training pairs exactly; of all such
    fits the one with the smallest coefficients is used. R^2 has no lower end: random codes are below 0.
    Shapes: codes (P, D), without prefix tokens. Units: patches. Raises: ProbeError for codes that are not of this grid.
    Source: thesis 4.1. Differs: by default the folds split positions.
    """
    code, at = codes_on(codes, grid), places(grid)
    scores = []
    for fold in split(grid, folds, seed, np.ones((grid.patches, grid.patches), dtype=bool)):
        (x, y), (x_test, y_test) = (
            (code[pairs[:, 0]] - code[pairs[:, 1]], at[pairs[:, 0]] - at[pairs[:, 1]])
            for pairs in (fold.train, fold.test)
        )
        scaler = StandardScaler().fit(x)
        fit = LinearRegression(tol=SMALLEST).fit(scaler.transform(x), y)
        wrong = ((fit.predict(scaler.transform(x_test)) - y_test) ** 2).sum(axis=0)
        spread = ((y_test - y_test.mean(axis=0)) ** 2).sum(axis=0)
        scores.append(1 - np.mean(wrong[spread > 0] / spread[spread > 0]))
    return float(np.mean(scores))


def probe(subject: Subject) -> Findings:
    """Finds R^2; `r2_pairs` is with folds over pairs, as the thesis may have had them."""
    if subject.codes is None:
        return no_code(subject)
    kinds: dict[str, FoldKind] = {"r2": "positions", "r2_pairs": "pairs"}
    return Findings({name: distance(subject.codes, subject.grid, folds, subject.seed) for name, folds in kinds.items()})
