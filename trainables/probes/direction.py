"""The direction probe: does the difference of two codes say which position is further left, or higher up?"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from trainables.encodings.encoding import Grid
from trainables.probes.inputs.arrays import ProbeError, codes_on, places
from trainables.probes.inputs.folds import FoldKind, split
from trainables.probes.inputs.subject import Subject, no_code
from trainables.recipe.findings import Findings

Target = Literal["left", "above"]
AXES = {"left": 0, "above": 1}
"""The coordinate that decides each target."""


def direction(codes: Any, grid: Grid, target: Target = "left", folds: FoldKind = "positions", seed: int = 0) -> float:
    """Returns a logistic regression's mean accuracy over folds: is position i left of (above) j, from p_i - p_j?

    Pairs in one column (row) are left out. Features are standardized by the training pairs, because the regression's
    penalty (C = 1) would otherwise depend on the scale of a code. Chance is 0.5.
    Shapes: codes (P, D), without prefix tokens. Raises: ProbeError for codes that are not of this grid.
    Source: thesis 4.1. Differs: by default the folds split positions; on small samples random codes score below 0.5.
    Cost: 0.2 s for 64 positions of 64 channels.
    """
    if target not in AXES:
        raise ProbeError(f"target must be 'left' or 'above', got {target!r}")
    code, at = codes_on(codes, grid), places(grid)[:, AXES[target]]
    scores = []
    for fold in split(grid, folds, seed, at[:, None] != at):
        (x, y), (x_test, y_test) = (
            (code[pairs[:, 0]] - code[pairs[:, 1]], at[pairs[:, 0]] < at[pairs[:, 1]])
            for pairs in (fold.train, fold.test)
        )
        probe = make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky")).fit(x, y)
        scores.append(float(np.mean(probe.predict(x_test) == y_test)))
    return float(np.mean(scores))


def probe(subject: Subject) -> Findings:
    """Finds accuracies by target; `left_pairs` and `above_pairs` have folds over pairs, as the thesis may have had."""
    if subject.codes is None:
        return no_code(subject)
    values: dict[str, float] = {}
    kinds: dict[FoldKind, str] = {"positions": "", "pairs": "_pairs"}
    targets: tuple[Target, ...] = ("left", "above")
    for folds, ending in kinds.items():
        for target in targets:
            values[target + ending] = direction(subject.codes, subject.grid, target, folds, subject.seed)
    return Findings(values)
