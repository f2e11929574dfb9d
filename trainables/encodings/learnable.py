"""A free table: one learned vector for each token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from trainables.encodings.declared import Param, Params, trunc_normal
from trainables.encodings.encoding import Grid
from trainables.encodings.injection import CodeSpec

if TYPE_CHECKING:
    from trainables.encodings.declared_torch import Parameters, Positions
    from trainables.encodings.encoding_torch import CodeND


class Learnable(CodeSpec):
    """A free table with one row for each token, the class token included.

    Shapes: table (N, D). Source: thesis 3.1; DeiT. Differs: the class token has a row, as in DeiT (the thesis adds it
    afterwards); initial values are cut at +-2, as in timm.
    """

    kind: Literal["learnable"] = Field(default="learnable", init=False)
    std: float = Field(default=0.02, gt=0, description="a positive standard deviation")

    def params(self, dim: int, grid: Grid) -> Params:
        return {"table": Param((grid.tokens, dim), trunc_normal(self.std), resample="grid")}

    def code(self, p: Parameters, at: Positions) -> CodeND:
        return p("table")
