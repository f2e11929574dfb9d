"""Resamples tables for another grid, bicubically: tables of patches or of their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import interpolate

if TYPE_CHECKING:
    from trainables.encodings.encoding import Grid


def resampled_table(table: Tensor, old: Grid, new: Grid) -> Tensor:
    """Returns a table with a row for each token, for another grid; prefix rows stay.

    Shapes: (prefix + P, D) to (prefix + P', D). Source: DeiT's evaluation at other sizes, and so CPVT tables 1, 2, 8.
    Differs: in float64; without antialiasing also if the grid shrinks (timm antialiases by default).
    """
    prefix, patches = table[: old.prefix], table[old.prefix :]
    maps = _bicubic(patches.T.reshape(-1, old.rows, old.columns), new.rows, new.columns)
    return torch.cat([prefix, maps.flatten(1).T])


def resampled_offsets(table: Tensor, old: Grid, new: Grid) -> Tensor:
    """Returns a table with a number for each offset of two patches, for another grid; the value of offset 0 stays.

    Shapes: (..., (2R - 1)(2C - 1)) to (..., (2R' - 1)(2C' - 1)), row offsets first.
    Source: timm's `resize_rel_pos_bias_table_simple`. Differs: in float64; grids need not be square.
    """
    maps = table.reshape(*table.shape[:-1], 2 * old.rows - 1, 2 * old.columns - 1)
    return _bicubic(maps, 2 * new.rows - 1, 2 * new.columns - 1).flatten(-2)


def resampled_line(table: Tensor, length: int) -> Tensor:
    """Returns a table with a vector for each offset along one side, for a side of another length.

    That of offset 0 stays.
    Shapes: (..., 2L - 1, E) to (..., 2 length - 1, E). Source: as `resampled_offsets`.
    Differs: one dimension.
    """
    return resampled_side(table, 2 * length - 1)


def resampled_side(table: Tensor, length: int) -> Tensor:
    """Returns a table with a vector for each place along one side, for a side of another length.

    Shapes: (..., L, E) to (..., length, E). Source: as `resampled_table`. Differs: one dimension.
    """
    return _bicubic(table.mT[..., None], length, 1)[..., 0].mT


def _bicubic(maps: Tensor, rows: int, columns: int) -> Tensor:
    flat = maps.double().reshape(1, -1, *maps.shape[-2:])
    made = interpolate(flat, (rows, columns), mode="bicubic", align_corners=False, antialias=False)
    return made.reshape(*maps.shape[:-2], rows, columns).to(maps.dtype)
