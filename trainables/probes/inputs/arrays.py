"""What probes take, made ready: arrays, numpy's or torch's, in float64 and of the shape that the grid says."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.encodings.encoding import Grid
from trainables.spec import LocusError

Array = NDArray[np.float64]


class ProbeError(LocusError):
    """Something that a probe cannot look at, in a sentence."""


def float64(value: Any) -> Array:
    """Returns numbers in float64: an array, a list, or a tensor on any device."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().double().numpy()
    return np.asarray(value, dtype=np.float64)


def codes_on(codes: Any, grid: Grid) -> Array:
    """Returns codes of patches in float64. Shapes: (P, D). Raises: ProbeError for another row count, NaN, infinity."""
    numbers = float64(codes)
    if numbers.ndim != 2 or len(numbers) != grid.patches:
        must = f"(P, D) with a row for each of the {grid.patches} patches of the grid, without prefix tokens"
        raise ProbeError(f"codes must have the shape {must}, got {numbers.shape}")
    if not np.isfinite(numbers).all():
        raise ProbeError("codes must be finite, got NaN or infinity")
    return numbers


def places(grid: Grid) -> Array:
    """Returns the (column, row) of each patch, from 0. Shapes: (P, 2). Units: patches."""
    rows, columns = np.divmod(np.arange(grid.patches), grid.columns)
    return np.stack([columns, rows], axis=1).astype(np.float64)
