"""A free table: one learned vector a token, added before the first block."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.encodings import learnable
from trainables.encodings.encoding import Widths
from trainables.encodings.encoding_torch import Code, CodeND, Grid
from trainables.encodings.resample_torch import resampled_table


class Learnable(Code):
    """One row a token, prefix rows first.

    Shapes: table (P + prefix, D). Source: thesis 3.1, DeiT. Differs: the class token has a row, as in DeiT; truncated
    at +-2, as timm does (in practice a plain normal).
    """

    no_decay = ("table",)

    def __init__(self, spec: learnable.Learnable, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        self.std = spec.std
        self.table = nn.Parameter(torch.empty(grid.prefix + grid.patches, widths.dim))

    def code(self) -> CodeND:
        return self.table

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        nn.init.trunc_normal_(value, std=self.std, generator=stream)

    def resampled(self, name: str, value: Tensor, old: Grid, new: Grid) -> Tensor:
        return resampled_table(value, old, new)
