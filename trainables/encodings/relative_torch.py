"""Learned terms for each offset between two patches: scalars added to the logits, or vectors beside the keys."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import pad

from trainables.encodings import relative
from trainables.encodings.encoding import Widths
from trainables.encodings.encoding_torch import Grid, Heads, LogitsBHQN, OutputsBHQE, PositionEncoding, coordinates
from trainables.encodings.pair_lookup_torch import looked_up, picked, summed_by_number
from trainables.encodings.resample_torch import resampled_line, resampled_offsets

IndexPP = Int[Tensor, "P P"]
IndexLL = Int[Tensor, "L L"]


def offset_index(grid: Grid) -> IndexPP:
    """Returns the number of the offset query minus key: (dr + R - 1)(2C - 1) + dc + C - 1. Shapes: (P queries, P)."""
    x, y = coordinates(grid).unbind(1)
    rows = y[:, None] - y[None, :] + grid.rows - 1
    columns = x[:, None] - x[None, :] + grid.columns - 1
    return rows * (2 * grid.columns - 1) + columns


def clipped_index(grid: Grid, reach: int) -> IndexPP:
    """Returns the number of the clipped offset key minus query: (dr + K)(2K + 1) + dc + K. Shapes: (P queries, P)."""
    lines = coordinates(grid).flip(1).unbind(1)
    rows, columns = ((line[None, :] - line[:, None]).clamp(-reach, reach) for line in lines)
    return (rows + reach) * (2 * reach + 1) + columns + reach


def line_index(length: int) -> IndexLL:
    """Returns the number of the offset key minus query along one side: j - i + length - 1. Shapes: (L queries, L)."""
    line = torch.arange(length)
    return line[None, :] - line[:, None] + length - 1


class RelativeBias(PositionEncoding):
    """One scalar per head and offset, zero at the start; one table for each block, or one for all.

    Shapes: table (depth or 1, H, (2R - 1)(2C - 1)).
    Cost: the learned term turns flash attention off; a lookup of P^2 numbers per head and block.
    """

    in_heads = "nothing"

    def __init__(self, spec: relative.RelativeBias, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        self.shared = spec.shared
        offsets = (2 * grid.rows - 1) * (2 * grid.columns - 1)
        self.table = nn.Parameter(torch.empty(1 if spec.shared else depth, widths.heads, offsets))
        self.register_buffer("index", offset_index(grid), persistent=False)

    def bias(self, grid: Grid, queries: int, block: int) -> LogitsBHQN:
        index = self.get_buffer("index")[: queries - grid.prefix]
        bias = picked(self.table[0 if self.shared else block], index)
        return pad(bias[None], (grid.prefix, 0, grid.prefix, 0))

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        value.zero_()

    def resampled(self, name: str, value: Tensor, old: Grid, new: Grid) -> Tensor:
        return resampled_offsets(value, old, new)


class SplitTables(nn.Module):
    """A vector for each offset: half from a table of row offsets, half from one of column offsets.

    Shapes: rows (tables, 2R - 1, E / 2), columns (tables, 2C - 1, E / 2).
    Cost: products with R + C vectors per patch; the terms of rows and columns are added as scalars.
    """

    def __init__(self, tables: int, head_dim: int, grid: Grid) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.empty(tables, 2 * grid.rows - 1, head_dim // 2))
        self.columns = nn.Parameter(torch.empty(tables, 2 * grid.columns - 1, head_dim // 2))
        self.side = (grid.rows, grid.columns)
        self.register_buffer("row_index", line_index(grid.rows), persistent=False)
        self.register_buffer("column_index", line_index(grid.columns), persistent=False)

    def _vectors(self, table: int) -> tuple[Tensor, Tensor]:
        """Returns the vectors of all pairs of rows, and of columns. Shapes: (R, R, E / 2), (C, C, E / 2)."""
        return self.rows[table][self.get_buffer("row_index")], self.columns[table][self.get_buffer("column_index")]

    def _map(self, patches: Tensor, dim: int) -> Tensor:
        """Reshapes patches along a dimension to rows and columns. Shapes: (..., P, ...) to (..., R, C, ...)."""
        return patches.reshape(*patches.shape[:dim], *self.side, *patches.shape[dim + 1 :])

    def products(self, q: Tensor, table: int) -> Tensor:
        """Computes q_i . r_ij of all pairs of patches. Shapes: (B, H, P, E) to (B, H, P, P)."""
        if not q.shape[2]:
            return self._without_queries(q, self.side[0] * self.side[1])
        first, second = self._map(q, 2).chunk(2, dim=4)
        rows, columns = self._vectors(table)
        along_rows = first @ rows.mT
        along_columns = (second.transpose(2, 3) @ columns.mT).transpose(2, 3)
        return (along_rows[..., :, None] + along_columns[..., None, :]).flatten(4).flatten(2, 3)

    def sums(self, weights: Tensor, table: int) -> Tensor:
        """Returns the sums over j of weights_ij r_ij. Shapes: (B, H, P, P) to (B, H, P, E)."""
        if not weights.shape[2]:
            return self._without_queries(weights, 2 * self.rows.shape[2])
        weights = self._map(self._map(weights, 3), 2)
        rows, columns = self._vectors(table)
        first = weights.sum(5) @ rows
        second = (weights.sum(4).transpose(2, 3) @ columns).transpose(2, 3)
        return torch.cat([first, second], dim=4).flatten(2, 3)

    def _without_queries(self, like: Tensor, width: int) -> Tensor:
        """Returns no terms, of which the tables' gradients are zeros: DDP waits for a gradient of every parameter.

        Shapes: like (B, H, 0, any) to (B, H, 0, width).
        """
        return like.new_zeros(*like.shape[:3], width) + self.rows.sum() + self.columns.sum()


class ClippedTables(nn.Module):
    """A vector for each pair of row and column offsets, both clipped to a reach.

    Shapes: vectors (tables, (2K + 1)^2, E).
    Cost: products with (2K + 1)^2 vectors per patch, then a lookup of P^2 numbers.
    """

    def __init__(self, tables: int, head_dim: int, grid: Grid, reach: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(tables, (2 * reach + 1) ** 2, head_dim))
        self.register_buffer("index", clipped_index(grid, reach), persistent=False)

    def products(self, q: Tensor, table: int) -> Tensor:
        """Computes q_i . r_ij of all pairs of patches. Shapes: (B, H, Q, E) to (B, H, Q, P)."""
        return looked_up(q @ self.vectors[table].T, self.get_buffer("index")[: q.shape[2]])

    def sums(self, weights: Tensor, table: int) -> Tensor:
        """Returns the sums over j of weights_ij r_ij. Shapes: (B, H, Q, P) to (B, H, Q, E)."""
        vectors, index = self.vectors[table], self.get_buffer("index")[: weights.shape[2]]
        return summed_by_number(weights, index, len(vectors)) @ vectors


class Relative(PositionEncoding):
    """A vector for each offset key minus query: times the query in the logit; with `value` another beside the value.

    Shapes: keys.* and values.*, a table for each block or one for all, shared by heads. Pairs with a prefix get zero.
    Cost: values need the attention weights, and so explicit attention.
    """

    reads_qk = True
    in_heads = "first"

    def __init__(self, spec: relative.Relative, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        self.shared, self.width, self.reads_weights = spec.shared, widths.head_dim, spec.value
        tables = 1 if spec.shared else depth

        def table() -> SplitTables | ClippedTables:
            if isinstance(spec.offsets, relative.ClippedOffsets):
                return ClippedTables(tables, widths.head_dim, grid, spec.offsets.reach)
            return SplitTables(tables, widths.head_dim, grid)

        self.keys = table()
        self.values = table() if spec.value else None

    def heads(self, h: Heads, block: int) -> Heads:
        prefix = h.grid.prefix
        q = h.q[:, :, prefix:, : self.width] * self.width**-0.5
        return h.plus(pad(self.keys.products(q, 0 if self.shared else block), (prefix, 0, prefix, 0)))

    def outputs(self, o: OutputsBHQE, weights: LogitsBHQN, grid: Grid, block: int) -> OutputsBHQE:
        if self.values is None:
            return o
        sums = self.values.sums(weights[:, :, grid.prefix :, grid.prefix :], 0 if self.shared else block)
        return o + pad(sums, (0, 0, grid.prefix, 0))

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        nn.init.trunc_normal_(value, std=0.02, generator=stream)

    def resampled(self, name: str, value: Tensor, old: Grid, new: Grid) -> Tensor:
        lengths = {"rows": new.rows, "columns": new.columns}
        side = name.rpartition(".")[2]
        return resampled_line(value, lengths[side]) if side in lengths else value  # clipped vectors know no grid
