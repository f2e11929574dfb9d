"""What probes take: arrays, numpy's or torch's, in float64 and of the shape that the grid says, and pairs of positions.

The pairs are ordered, and split into folds: a probe learns from some and is tested on others. `positions`: the
positions are split, and a pair is tested where both its ends lie in the fold that training did not see. `pairs`: the
pairs are split, so that a position of a test pair occurs in training, too. Then even random codes seem to know their
places, because a code with as many channels as there are positions can be learned by heart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.encodings.encoding import Grid
from trainables.spec import LocusError

Array = NDArray[np.float64]
FoldKind = Literal["positions", "pairs"]
Pairs = NDArray[np.int64]

FOLDS = 10
"""How many folds there are, on grids with enough positions."""
FEWEST_POSITIONS = 3
"""A fold has at least so many positions; a small grid has fewer folds."""
MOST_PAIRS = 2000
"""At most so many pairs are learned from, and tested, in a fold: a sample that the seed decides."""


class ProbeError(LocusError):
    """Something that a probe cannot look at, in a sentence."""


def float64(value: Any) -> Array:
    """Numbers in float64: an array, a list, or a tensor on any device."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().double().numpy()
    return np.asarray(value, dtype=np.float64)


def codes_on(codes: Any, grid: Grid) -> Array:
    """Codes of patches in float64. Shapes: (P, D). Raises: ProbeError for another number of rows, NaN, infinity."""
    found = float64(codes)
    if found.ndim != 2 or len(found) != grid.patches:
        must = f"(P, D) with a row for each of the {grid.patches} patches of the grid, without prefix tokens"
        raise ProbeError(f"codes must have the shape {must}, got {found.shape}")
    if not np.isfinite(found).all():
        raise ProbeError("codes must be finite, got NaN or infinity")
    return found


def places(grid: Grid) -> Array:
    """The (column, row) of each patch, from 0. Shapes: (P, 2). Units: patches."""
    rows, columns = np.divmod(np.arange(grid.patches), grid.columns)
    return np.stack([columns, rows], axis=1).astype(np.float64)


@dataclass(frozen=True)
class Fold:
    """The pairs (i, j) that a probe learns from, and those that it is tested on. Shapes: (M, 2) each."""

    train: Pairs
    test: Pairs


def split(grid: Grid, kind: FoldKind, seed: int, keep: NDArray[np.bool_]) -> list[Fold]:
    """The folds of the ordered pairs of different positions that `keep` says; folds without test pairs are left out.

    Shapes: keep (P, P). Raises: ProbeError for an unknown kind of folds, or a grid that is too small.
    """
    if kind not in ("positions", "pairs"):
        raise ProbeError(f"folds must be 'positions' or 'pairs', got {kind!r}")
    rng = np.random.default_rng(seed)
    keep = keep & ~np.eye(grid.patches, dtype=bool)
    found = list(_by_position(grid, rng, keep) if kind == "positions" else _by_pair(rng, keep))
    usable = [fold for fold in found if len(fold.train) and len(fold.test)]
    folds = [Fold(_sample(fold.train, rng), _sample(fold.test, rng)) for fold in usable]
    if not folds:
        raise ProbeError(f"the grid must have enough pairs to split, got {grid.rows} x {grid.columns} patches")
    return folds


def _by_position(grid: Grid, rng: np.random.Generator, keep: NDArray[np.bool_]) -> list[Fold]:
    """Folds of positions: both ends of a training pair are outside the fold, both ends of a test pair inside."""
    count = min(FOLDS, grid.patches // FEWEST_POSITIONS)
    found = []
    for group in np.array_split(rng.permutation(grid.patches), max(count, 1)):
        inside = np.zeros(grid.patches, dtype=bool)
        inside[group] = True
        seen, unseen = ~inside[:, None] & ~inside, inside[:, None] & inside
        found.append(Fold(np.argwhere(keep & seen), np.argwhere(keep & unseen)))
    return found


def _by_pair(rng: np.random.Generator, keep: NDArray[np.bool_]) -> list[Fold]:
    """Folds of pairs, whatever their ends."""
    pairs = rng.permutation(np.argwhere(keep))
    parts = np.array_split(np.arange(len(pairs)), FOLDS)
    return [Fold(np.delete(pairs, part, axis=0), pairs[part]) for part in parts]


def _sample(pairs: Pairs, rng: np.random.Generator) -> Pairs:
    """All pairs where they are few enough, else a sample."""
    return pairs if len(pairs) <= MOST_PAIRS else rng.permutation(pairs)[:MOST_PAIRS]
