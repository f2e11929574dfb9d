"""Locally-enhanced position encoding: a convolution over the map of the values, added to what attention puts out."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from trainables.encodings.encoding import EncodingSpec, InjectionPoint, Shape
from trainables.spec import require


class LePE(EncodingSpec):
    """A depth-wise convolution of the values' map in each block, whose zero padding shows the border.

    Source: Dong et al. 2022, CSWin Transformer, section 3.3; its published code (kernel 3, with biases).
    Differs: the whole grid is one window. No weight decay, as for `peg`.
    """

    any_grid: ClassVar[bool] = True
    injection_points: ClassVar[frozenset[InjectionPoint]] = frozenset({"attention"})

    kind: Literal["lepe"] = Field(default="lepe", init=False)
    kernel: int = Field(default=3, gt=0, description="a positive odd kernel size")

    @model_validator(mode="after")
    def _odd(self) -> LePE:
        require(self.kernel % 2 == 1, "kernel", "odd", self.kernel)
        return self

    def parameters(self, shape: Shape) -> int:
        return shape.depth * shape.widths.heads * shape.widths.head_dim * (self.kernel**2 + 1)
