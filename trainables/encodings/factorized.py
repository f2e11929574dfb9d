"""A factorized table: one learned vector for each row and one for each column, added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from trainables.encodings.declared import Param, Params, trunc_normal
from trainables.encodings.encoding import Grid
from trainables.encodings.injection import CodeSpec

if TYPE_CHECKING:
    from trainables.encodings.declared_torch import Parameters, Positions
    from trainables.encodings.encoding_torch import CodeND


class Factorized(CodeSpec):
    """The vector of a patch's row plus that of its column, from two learned tables; prefix tokens get zeros.

    On another grid each table is resampled along its own side.
    Shapes: rows (R, D), columns (C, D). Source: Dehghani et al. 2023, NaViT, section 2.1 (factorized, by absolute
    index, added). Differs: tables end with the grid (NaViT's have a row for each index up to a limit), and start with
    deviation 0.02, cut at +-2, as `learnable` does: the paper does not say.
    """

    kind: Literal["factorized"] = Field(default="factorized", init=False)
    std: float = Field(default=0.02, gt=0, description="a positive standard deviation")

    def params(self, dim: int, grid: Grid) -> Params:
        sides: dict[Literal["rows", "columns"], int] = {"rows": grid.rows, "columns": grid.columns}
        return {side: Param((length, dim), trunc_normal(self.std), resample=side) for side, length in sides.items()}

    def code(self, p: Parameters, at: Positions) -> CodeND:
        return at.prefixed((p("rows")[:, None] + p("columns")[None]).flatten(0, 1))
