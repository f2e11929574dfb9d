"""The backbones of several stages, as numbers: PVT v2, Twins-PCPVT and Swin. Each stage has an encoding of its own.

Each knows positions whatever `encoding` is, unless a switch removes them. All average their patches, without dropout.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from trainables.backbones.backbone import ModelSpec, Size, check_ratio, convolution, hidden, linear, norm
from trainables.backbones.one_grid import Count
from trainables.encodings import InjectionPoint, Shape, Widths
from trainables.spec import require

_EACH = "for each stage"


class Staged(ModelSpec):
    """What backbones of several stages have in common: each stage halves the grid of the one before it."""

    supported_points: ClassVar[frozenset[InjectionPoint]] = frozenset({"first", "between"})
    supports_concat: ClassVar[bool] = False
    reason: ClassVar[str] = (
        "none, or codes added to the tokens and padded convolutions over them: each stage of the backbone has its own "
        "(its attention has no place for terms of pairs, and its tokens give up no channels)"
    )

    depths: tuple[Count, ...] = Field(default=(2, 2), strict=False, description=f"a number of blocks {_EACH}")
    num_heads: tuple[Count, ...] = Field(default=(1, 2), strict=False, description=f"a number of heads {_EACH}")

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
        for dim, heads in zip(self.widths, self.num_heads, strict=True):
            must = f"divisors of the stages' channels {self.widths}"
            require(dim % heads == 0, "num_heads", must, list(self.num_heads))
        return self

    def check(self, size: Size) -> None:
        whole = self.cut * 2 ** (len(self.depths) - 1)
        must = f"such that images of {size[1:]} pixels can be cut and halved (sides: multiples of {whole})"
        require(all(side % whole == 0 for side in size[1:]), "model.depths", must, list(self.depths))

    def shapes(self, size: Size) -> tuple[Shape, ...]:
        sides = [self.cut * 2**stage for stage in range(len(self.depths))]
        return tuple(
            Shape(Widths(dim, heads, dim // heads), depth, size[1] // side, size[2] // side, 0)
            for dim, heads, depth, side in zip(self.widths, self.num_heads, self.depths, sides, strict=True)
        )


class Pyramid(Staged):
    """What both pyramids of PVT have in common: keys and values are those of the map, reduced along both sides.

    `mlp_steps`: how many maps of its hidden width an MLP keeps for the gradient.
    """

    mlp_steps: ClassVar[int] = 2

    embed_dims: tuple[Count, ...] = Field(default=(32, 64), strict=False, description=f"a number of channels {_EACH}")
    sr_ratios: tuple[Count, ...] = Field(
        default=(2, 1), strict=False, description=f"a divisor of the grid's sides {_EACH}"
    )
    mlp_ratios: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        default=(4.0, 4.0), strict=False, description=f"a ratio of the MLP's width to dim {_EACH}"
    )

    @model_validator(mode="after")
    def _ratios(self) -> Pyramid:
        for dim, ratio in zip(self.embed_dims, self.mlp_ratios, strict=True):
            check_ratio(dim, ratio, "mlp_ratios")
        return self

    @property
    def widths(self) -> tuple[int, ...]:
        return self.embed_dims

    def check(self, size: Size) -> None:
        super().check(size)
        for shape, by in zip(self.shapes(size), self.sr_ratios, strict=True):
            must = f"divisors of the stages' sides, here {(shape.rows, shape.columns)}"
            require(shape.rows % by == shape.columns % by == 0, "model.sr_ratios", must, list(self.sr_ratios))

    def attention(self, stage: int) -> int:
        """Counts the parameters of a stage's attention."""
        dim, by = self.embed_dims[stage], self.sr_ratios[stage]
        return 4 * linear(dim, dim) + (convolution(dim, dim, by) + norm(dim) if by > 1 else 0)

    def hidden(self, stage: int) -> int:
        return hidden(self.embed_dims[stage], self.mlp_ratios[stage])

    def saved_activations(self, size: Size, saved_pairs: int) -> int:
        """Returns what the blocks of all stages keep; the reduced map counts little."""
        return sum(
            shape.depth * shape.tokens * int((12 + self.mlp_steps * ratio) * shape.widths.dim)
            + 6 * shape.tokens * shape.widths.dim
            for shape, ratio in zip(self.shapes(size), self.mlp_ratios, strict=True)
        )
