"""A learned scalar for each offset between two patches, added to the logits."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import pad

from trainables import catalog
from trainables.encoding import Grid, Heads, PositionEncoding, Widths

IndexPP = Int[Tensor, "P P"]


def offset_index(grid: Grid) -> IndexPP:
    """The number of the offset query minus key: (dr + R - 1)(2C - 1) + dc + C - 1. Shapes: (P queries, P keys)."""
    x, y = grid.coordinates().unbind(1)
    rows = y[:, None] - y[None, :] + grid.rows - 1
    columns = x[:, None] - x[None, :] + grid.columns - 1
    return rows * (2 * grid.columns - 1) + columns


class RelativeBias(PositionEncoding):
    """One scalar a head for each offset, starting at zero; own tables a block, or one for all.

    Shapes: table (depth or 1, H, (2R - 1)(2C - 1)). Source: CPVT's LE + RPE row (shared); timm's RelPosBias.
    Differs: pairs with a prefix token get zero (timm has three rows for them).
    Cost: the learned term turns off the fastest attention kernels; a lookup of P^2 numbers a head and block.
    """

    undecayed = ("table",)

    def __init__(self, spec: catalog.RelativeBias, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        self.shared = spec.shared
        offsets = (2 * grid.rows - 1) * (2 * grid.columns - 1)
        self.table = nn.Parameter(torch.empty(1 if spec.shared else depth, widths.heads, offsets))
        self.register_buffer("index", offset_index(grid), persistent=False)

    def heads(self, h: Heads, block: int) -> Heads:
        index = self.get_buffer("index")
        bias = self.table[0 if self.shared else block].index_select(1, index.flatten())
        bias = bias.reshape(1, -1, *index.shape)
        return h.plus(pad(bias, (h.grid.prefix, 0, h.grid.prefix, 0)))

    def start(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        value.zero_()
