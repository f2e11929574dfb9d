"""The trunks of several stages, as numbers: PVT v2, Twins-PCPVT and Swin. Each stage has an encoding of its own.

Position stays however `encoding` is set, unless a switch says otherwise. All average their patches; nothing is dropped.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from trainables.encoding_spec import Moment, Shape, Takes, Widths
from trainables.layer_sizes import convolution, hidden, linear, mlp, norm
from trainables.model_spec import ModelSpec, Size, ViT, check_ratio
from trainables.spec import require
from trainables.trunk_specs import TNT, VOLO, CaiT, ConViT, Count

_EACH = "for each stage"


class Staged(ModelSpec):
    """What trunks of several stages say alike: each stage halves the grid of the one before it."""

    holds: ClassVar[frozenset[Moment]] = frozenset({"first", "between"})
    gives: ClassVar[bool] = False
    room: ClassVar[str] = (
        "none, or codes added to the tokens and padded convolutions over them: each stage of the trunk has its own "
        "(its attention has no place for terms of pairs, and its tokens give up no channels)"
    )

    depths: tuple[Count, ...] = Field(default=(2, 2), strict=False, description=f"a number of blocks {_EACH}")
    heads: tuple[Count, ...] = Field(default=(1, 2), strict=False, description=f"a number of heads {_EACH}")

    @property
    def widths(self) -> tuple[int, ...]:
        """The channels of each stage."""
        raise NotImplementedError

    @property
    def cut(self) -> int:
        """The side of a patch in pixels."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _alike(self) -> Staged:
        require(bool(self.depths), "depths", "numbers of blocks, one at least", [])
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, tuple):
                alike = len(value) == len(self.depths)
                require(alike, name, f"as many numbers as depths ({len(self.depths)})", list(value))
        for dim, heads in zip(self.widths, self.heads, strict=True):
            require(dim % heads == 0, "heads", f"divisors of the stages' channels {self.widths}", list(self.heads))
        return self

    def fit(self, size: Size) -> None:
        whole = self.cut * 2 ** (len(self.depths) - 1)
        must = f"such that images of {size[1:]} pixels can be cut and halved (sides: multiples of {whole})"
        require(all(side % whole == 0 for side in size[1:]), "model.depths", must, list(self.depths))

    def shapes(self, size: Size) -> tuple[Shape, ...]:
        sides = [self.cut * 2**stage for stage in range(len(self.depths))]
        return tuple(
            Shape(Widths(dim, heads, dim // heads), depth, size[1] // side, size[2] // side, 0)
            for dim, heads, depth, side in zip(self.widths, self.heads, self.depths, sides, strict=True)
        )


class Pyramid(Staged):
    """What both pyramids of PVT say alike: keys and values are those of the map, reduced along both sides.

    `mlp_steps`: how many maps of its hidden width an MLP keeps for the gradient.
    """

    mlp_steps: ClassVar[int] = 2

    dims: tuple[Count, ...] = Field(default=(32, 64), strict=False, description=f"a number of channels {_EACH}")
    reductions: tuple[Count, ...] = Field(
        default=(2, 1), strict=False, description=f"a divisor of the grid's sides {_EACH}"
    )
    mlp_ratios: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        default=(4.0, 4.0), strict=False, description=f"a ratio of the MLP's width to dim {_EACH}"
    )

    @model_validator(mode="after")
    def _ratios(self) -> Pyramid:
        for dim, ratio in zip(self.dims, self.mlp_ratios, strict=True):
            check_ratio(dim, ratio, "mlp_ratios")
        return self

    @property
    def widths(self) -> tuple[int, ...]:
        return self.dims

    def fit(self, size: Size) -> None:
        super().fit(size)
        for shape, by in zip(self.shapes(size), self.reductions, strict=True):
            must = f"divisors of the stages' sides, here {(shape.rows, shape.columns)}"
            require(shape.rows % by == shape.columns % by == 0, "model.reductions", must, list(self.reductions))

    def attention(self, stage: int) -> int:
        """The parameters of a stage's attention."""
        dim, by = self.dims[stage], self.reductions[stage]
        return 4 * linear(dim, dim) + (convolution(dim, dim, by) + norm(dim) if by > 1 else 0)

    def hidden(self, stage: int) -> int:
        """The width of a stage's MLPs."""
        return hidden(self.dims[stage], self.mlp_ratios[stage])

    def kept(self, size: Size, pairs: int) -> int:
        """What the blocks of all stages keep; the reduced map counts little."""
        return sum(
            shape.depth * shape.tokens * int((12 + self.mlp_steps * ratio) * shape.widths.dim)
            + 6 * shape.tokens * shape.widths.dim
            for shape, ratio in zip(self.shapes(size), self.mlp_ratios, strict=True)
        )


class PVTv2(Pyramid):
    """PVT with overlapping patches and a depth-wise convolution in each MLP, whose zero padding tells of position.

    Source: Wang et al. 2022, PVT v2, section 3. Differs: the linear attention of B2-Li is left out.
    """

    mlp_steps: ClassVar[int] = 3

    kind: Literal["pvt_v2"] = Field(default="pvt_v2", init=False)

    @property
    def cut(self) -> int:
        return 4

    def parameters(self, size: Size, outputs: int, takes: Takes) -> int:
        total, before = 0, size[0]
        for stage, dim in enumerate(self.dims):
            hidden = self.hidden(stage)
            depthwise = 10 * hidden
            block = 2 * norm(dim) + self.attention(stage) + mlp(dim, hidden) + depthwise
            total += convolution(before, dim, 3 if stage else 7) + 2 * norm(dim) + self.depths[stage] * block
            before = dim
        return total + linear(before, outputs)


class Twins(Pyramid):
    """PVT (v1) with a PEG of Twins' own after the first block of each stage, without the table of PVT.

    `peg`: false leaves Twins' PEG out, so that `encoding` is the only source of position; nearest to PVT v1, which timm
    lacks. Source: Chu et al. 2021, Twins, section 3.1 (PCPVT). Differs: nothing.
    """

    kind: Literal["twins"] = Field(default="twins", init=False)
    patch: int = Field(default=4, gt=0, description="a positive side in pixels")
    peg: bool = Field(default=True, description="true (a PEG after the first block of each stage) or false")

    @property
    def cut(self) -> int:
        return self.patch

    def parameters(self, size: Size, outputs: int, takes: Takes) -> int:
        total, before = 0, size[0]
        for stage, dim in enumerate(self.dims):
            block = 2 * norm(dim) + self.attention(stage) + mlp(dim, self.hidden(stage))
            peg = 10 * dim if self.peg else 0
            total += convolution(before, dim, 2 if stage else self.patch) + norm(dim) + self.depths[stage] * block + peg
            before = dim
        return total + norm(before) + linear(before, outputs)


class Swin(Staged):
    """Attention in windows, shifted in every second block; each stage has twice the channels of the one before it.

    Windows and their shifts tell of position however `encoding` is set. `relative_bias`: false leaves out the learned
    tables for the offsets within a window. Source: Liu et al. 2021, Swin transformer, section 3. Differs: nothing.
    """

    kind: Literal["swin"] = Field(default="swin", init=False)
    dim: int = Field(default=32, gt=0, description="a positive number of channels of the first stage")
    window: int = Field(default=4, gt=0, description="a positive side in patches")
    patch: int = Field(default=4, gt=0, description="a positive side in pixels")
    mlp_ratio: float = Field(default=4.0, gt=0, description="a positive ratio of the MLP's width to dim")
    relative_bias: bool = Field(default=True, description="true (learned tables of offsets in each window) or false")

    @model_validator(mode="after")
    def _ratio(self) -> Swin:
        check_ratio(self.dim, self.mlp_ratio)
        return self

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(self.dim * 2**stage for stage in range(len(self.depths)))

    @property
    def cut(self) -> int:
        return self.patch

    def fit(self, size: Size) -> None:
        super().fit(size)
        for shape in self.shapes(size):
            sides = (shape.rows, shape.columns)
            must = f"a divisor of the stages' sides, or larger, here {sides}"
            require(
                all(side <= self.window or side % self.window == 0 for side in sides), "model.window", must, self.window
            )

    def parameters(self, size: Size, outputs: int, takes: Takes) -> int:
        total = convolution(size[0], self.dim, self.patch) + norm(self.dim)
        for stage, shape in enumerate(self.shapes(size)):
            dim = shape.widths.dim
            offsets = math.prod(2 * min(side, self.window) - 1 for side in (shape.rows, shape.columns))
            table = offsets * shape.widths.heads if self.relative_bias else 0
            block = 2 * norm(dim) + 4 * linear(dim, dim) + mlp(dim, hidden(dim, self.mlp_ratio)) + table
            total += shape.depth * block + (norm(2 * dim) + 2 * dim * dim if stage else 0)
        return total + norm(dim) + linear(dim, outputs)

    def kept(self, size: Size, pairs: int) -> int:
        """What the blocks of all stages keep; pairs of one window in each of three steps."""
        total = 0
        for shape in self.shapes(size):
            area = min(shape.rows, self.window) * min(shape.columns, self.window)
            block = (12 + 2 * self.mlp_ratio) * shape.widths.dim + 3 * shape.widths.heads * area
            total += shape.tokens * int(shape.depth * block + 4 * shape.widths.dim)
        return total


PVT_V2_B1 = PVTv2(
    depths=(2, 2, 2, 2),
    heads=(1, 2, 5, 8),
    dims=(64, 128, 320, 512),
    reductions=(8, 4, 2, 1),
    mlp_ratios=(8.0, 8.0, 4.0, 4.0),
)
PVT_V2_B2 = PVTv2.read({**PVT_V2_B1.plain(), "depths": (3, 4, 6, 3)})
PVT_V2_B3 = PVTv2.read({**PVT_V2_B1.plain(), "depths": (3, 4, 18, 3)})
TWINS_PCPVT_SMALL = Twins.read({**PVT_V2_B2.plain(), "kind": "twins"})
SWIN_TINY = Swin(depths=(2, 2, 6, 2), heads=(3, 6, 12, 24), dim=96, window=7)
"""The sizes of the papers."""

Model = Annotated[ViT | CaiT | ConViT | VOLO | TNT | PVTv2 | Swin | Twins, Field(discriminator="kind")]
"""Any trunk, told apart by its kind."""
