"""Position from the zeros around the image: a convolution over the token map between blocks."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from trainables import catalog
from trainables.encoding import Grid, PositionEncoding, Tokens, Widths


class PEG(PositionEncoding):
    """Patches plus a depth-wise convolution of their map; prefix tokens stay as they are.

    Shapes: conv.<place>.weight (D, 1, k, k) and bias (D). Units: place -1 is before the first block, i after block i.
    Source: CPVT algorithm 1. Differs: nothing (bias, zero padding and torch's start are its own).
    """

    def __init__(self, spec: catalog.PEG, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        dim, kernel = widths.dim, spec.kernel
        self.places = frozenset(spec.places)
        self.conv = nn.ModuleDict(
            {str(place): nn.Conv2d(dim, dim, kernel, padding=kernel // 2, groups=dim) for place in spec.places}
        )

    def tokens(self, t: Tokens, block: int) -> Tokens:
        if block - 1 not in self.places:
            return t
        prefix, patches = torch.split(t.x, [t.grid.prefix, t.grid.patches], dim=1)
        image = patches.mT.reshape(*patches.mT.shape[:2], t.grid.rows, t.grid.columns)
        positions = self.conv[str(block - 1)](image).flatten(2).mT
        return replace(t, x=torch.cat([prefix, patches + positions], dim=1))
