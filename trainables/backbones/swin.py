"""Swin, as numbers."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, model_validator

from trainables.backbones.backbone import Size, check_ratio, convolution, hidden, linear, mlp, norm
from trainables.backbones.staged import Staged
from trainables.encodings.encoding import ReservedChannels
from trainables.spec import require


class Swin(Staged):
    """Attention in windows, shifted in every second block; each stage has twice the channels of the one before it.

    Windows and their shifts show positions whatever `encoding` is. `relative_bias`: false leaves out the learned
    tables for the offsets within a window. Source: Liu et al. 2021, Swin transformer, section 3. Differs: nothing.
    """

    kind: Literal["swin"] = Field(default="swin", init=False)
    embed_dim: int = Field(default=32, gt=0, description="a positive number of channels of the first stage")
    window_size: int = Field(default=4, gt=0, description="a positive side in patches")
    patch_size: int = Field(default=4, gt=0, description="a positive side in pixels")
    mlp_ratio: float = Field(default=4.0, gt=0, description="a positive ratio of the MLP's width to dim")
    relative_bias: bool = Field(default=True, description="true (learned tables of offsets in each window) or false")

    @model_validator(mode="after")
    def _ratio(self) -> Swin:
        check_ratio(self.embed_dim, self.mlp_ratio)
        return self

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(self.embed_dim * 2**stage for stage in range(len(self.depths)))

    @property
    def cut(self) -> int:
        return self.patch_size

    def check(self, size: Size) -> None:
        super().check(size)
        for shape in self.shapes(size):
            sides = (shape.rows, shape.columns)
            fits = all(side <= self.window_size or side % self.window_size == 0 for side in sides)
            must = f"a divisor of the stages' sides, or larger, here {sides}"
            require(fits, "model.window_size", must, self.window_size)

    def parameters(self, size: Size, outputs: int, reserved: ReservedChannels) -> int:
        total = convolution(size[0], self.embed_dim, self.patch_size) + norm(self.embed_dim)
        for stage, shape in enumerate(self.shapes(size)):
            dim = shape.widths.dim
            offsets = math.prod(2 * min(side, self.window_size) - 1 for side in (shape.rows, shape.columns))
            table = offsets * shape.widths.heads if self.relative_bias else 0
            block = 2 * norm(dim) + 4 * linear(dim, dim) + mlp(dim, hidden(dim, self.mlp_ratio)) + table
            total += shape.depth * block + (norm(2 * dim) + 2 * dim * dim if stage else 0)
        return total + norm(dim) + linear(dim, outputs)

    def saved_activations(self, size: Size, saved_pairs: int) -> int:
        """Returns what the blocks of all stages keep; pairs of one window in each of three steps."""
        total = 0
        for shape in self.shapes(size):
            area = min(shape.rows, self.window_size) * min(shape.columns, self.window_size)
            block = (12 + 2 * self.mlp_ratio) * shape.widths.dim + 3 * shape.widths.heads * area
            total += shape.tokens * int(shape.depth * block + 4 * shape.widths.dim)
        return total


SWIN_TINY = Swin(depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), embed_dim=96, window_size=7)
"""The size of the paper."""
