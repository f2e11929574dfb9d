"""Ordered pairs of positions, split into folds: a probe learns from some and is tested on others.

`positions`: the positions are split, and a pair is tested where both its ends lie in the fold that training did not
see. `pairs`: the pairs are split, so that a position of a test pair occurs in training, too. Then even random codes
seem to know their places, because a code with as many channels as there are positions can be learned by heart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainables.encodings.encoding import Grid
from trainables.probes.inputs.arrays import ProbeError

FoldKind = Literal["positions", "pairs"]
Pairs = NDArray[np.int64]

FOLDS = 10
"""How many folds there are, on grids with enough positions."""
FEWEST_POSITIONS = 3
"""A fold has at least so many positions; a small grid has fewer folds."""
MOST_PAIRS = 2000
"""At most so many pairs are learned from, and tested, in a fold: a sample that the seed decides."""


@dataclass(frozen=True)
class Fold:
    """The pairs (i, j) that a probe learns from, and those that it is tested on. Shapes: (M, 2) each."""

    train: Pairs
    test: Pairs


def split(grid: Grid, kind: FoldKind, seed: int, keep: NDArray[np.bool_]) -> list[Fold]:
    """Returns the folds of the ordered pairs of different positions that `keep` says; those without pairs are left out.

    Shapes: keep (P, P). Raises: ProbeError for an unknown kind of folds, or a grid that is too small.
    """
    if kind not in ("positions", "pairs"):
        raise ProbeError(f"folds must be 'positions' or 'pairs', got {kind!r}")
    rng = np.random.default_rng(seed)
    keep = keep & ~np.eye(grid.patches, dtype=bool)
    folds = []
    if kind == "positions":  # a training pair has both ends outside the fold, a test pair inside
        count = max(1, min(FOLDS, grid.patches // FEWEST_POSITIONS))
        for group in np.array_split(rng.permutation(grid.patches), count):
            inside = np.zeros(grid.patches, dtype=bool)
            inside[group] = True
            seen, unseen = ~inside[:, None] & ~inside, inside[:, None] & inside
            folds.append((np.argwhere(keep & seen), np.argwhere(keep & unseen)))
    else:
        pairs = rng.permutation(np.argwhere(keep))
        parts = np.array_split(np.arange(len(pairs)), FOLDS)
        folds = [(np.delete(pairs, part, axis=0), pairs[part]) for part in parts]

    def sample(pairs: Pairs) -> Pairs:
        return pairs if len(pairs) <= MOST_PAIRS else rng.permutation(pairs)[:MOST_PAIRS]

    usable = [Fold(sample(train), sample(test)) for train, test in folds if len(train) and len(test)]
    if not usable:
        raise ProbeError(f"the grid must have enough pairs to split, got {grid.rows} x {grid.columns} patches")
    return usable
