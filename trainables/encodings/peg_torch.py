"""Position from the image's border: convolutions over the token map between blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from trainables.encodings import peg
from trainables.encodings.encoding import Widths
from trainables.encodings.encoding_torch import Grid, PositionEncoding, Tokens


class PEG(PositionEncoding):
    """Patches plus a convolution of their map; prefix tokens stay as they are.

    Without padding the map shrinks, and the convolution replaces the patches.
    Shapes: conv.<place>.weight (D, 1, k, k) and bias (D); conv.<place>.<layer>.… where there are several.
    Units: place -1 is before the first block, i after block i. Source: CPVT algorithm 1, tables 5, 11, 14.
    Differs: no weight decay, as in its authors' Twins; one residual around a stack, no biases before its normalization;
    queries and keys of the next block from LN(x + PEG(x)), values from LN(x): the paper does not say.
    """

    in_heads = "nothing"

    def __init__(self, spec: peg.PEG, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        self.places = frozenset(spec.places)
        self.qk_input, self.residual = spec.into == "query_key", spec.padding != "valid"
        self.conv = nn.ModuleDict({str(place): convolution(spec, widths.dim) for place in spec.places})
        self.frozen = spec.frozen

    def tokens(self, t: Tokens, block: int) -> Tokens:
        if block - 1 not in self.places:
            return t
        prefix, patches = torch.split(t.x, [t.grid.prefix, t.grid.patches], dim=1)
        image = patches.mT.reshape(*patches.mT.shape[:2], t.grid.rows, t.grid.columns)
        made: Tensor = self.conv[str(block - 1)](image)
        grid = Grid(made.shape[2], made.shape[3], t.grid.prefix)
        positions = made.flatten(2).mT
        if self.qk_input:
            qk_input = pad(positions, (0, 0, grid.prefix, 0))
            return replace(t, qk_input=qk_input if t.qk_input is None else t.qk_input + qk_input)
        patches = patches + positions if self.residual else positions
        return replace(t, x=torch.cat([prefix, patches], dim=1), grid=grid)


def convolution(spec: peg.PEG, dim: int) -> nn.Module:
    """Returns the convolution of one place: a layer, depth-wise and 1 x 1 ones, or a stack. Shapes: (B, D, R, C)."""
    groups = 1 if spec.form.startswith("dense") else dim
    padding = 0 if spec.padding == "valid" else spec.kernel // 2
    mode: Literal["circular", "zeros"] = "circular" if spec.padding == "circular" else "zeros"

    def layer(bias: bool = True) -> nn.Conv2d:
        return nn.Conv2d(dim, dim, spec.kernel, padding=padding, padding_mode=mode, groups=groups, bias=bias)

    if spec.form == "separable":
        return nn.Sequential(layer(), nn.Conv2d(dim, dim, 1))
    if spec.form.endswith("stack"):
        stack = ((layer(bias=False), nn.BatchNorm2d(dim), nn.ReLU()) for _ in range(spec.layers))
        return nn.Sequential(*(module for layers in stack for module in layers))
    return layer()
