"""The trunk that a position encoding stands in, as numbers: its shape, what it can hold, how heavy it is."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from trainables.encoding_spec import MOMENTS, EncodingSpec, Moment, Shape, Takes, Widths
from trainables.layer_sizes import convolution, hidden, linear, mlp, norm
from trainables.spec import Spec, require

Size = tuple[int, int, int]
"""Channels, rows and columns of an image, in pixels."""


class ModelSpec(Spec):
    """What every trunk's spec must say.

    `holds`: the moments at which its host has a place for position. `gives`: its tokens give up channels for position.
    `shrinks`: its grid may become smaller. `room`: the same in words, for whoever asks for more.
    """

    holds: ClassVar[frozenset[Moment]] = MOMENTS
    gives: ClassVar[bool] = True
    shrinks: ClassVar[bool] = False
    room: ClassVar[str] = "an encoding that the trunk has a place for"

    kind: str

    def fit(self, size: Size) -> None:
        """Complains with `require` where images of this size cannot be cut into patches."""

    def shapes(self, size: Size) -> tuple[Shape, ...]:
        """The trunk as an encoding sees it: one shape a stage, each with an encoding of its own."""
        raise NotImplementedError

    def accept(self, encoding: EncodingSpec, size: Size) -> None:
        """Complains where the trunk has no place for an encoding, or it cannot stand in one of the stages."""
        shapes = self.shapes(size)
        fits = encoding.moments <= self.holds and (self.shrinks or not encoding.shrinks)
        fits = fits and (self.gives or all(encoding.takes(shape.widths) == Takes() for shape in shapes))
        require(fits, "encoding", self.room, encoding.label)
        for shape in shapes:
            encoding.fit(shape)

    def parameters(self, size: Size, outputs: int, takes: Takes) -> int:
        """The trunk's parameters without its encoding, and without the channels that position takes."""
        raise NotImplementedError

    def kept(self, size: Size, pairs: int) -> int:
        """How many numbers an image keeps for the gradient, within a factor of 1.5; `pairs` as an encoding says it."""
        raise NotImplementedError


def check_ratio(dim: int, ratio: float, field: str = "mlp_ratio") -> None:
    """Complains of an MLP without any hidden channel, which timm would make as wide as its input."""
    require(hidden(dim, ratio) > 0, field, f"such that an MLP of {dim} channels has a hidden one", ratio)


class ViT(ModelSpec):
    """The trunk: timm's VisionTransformer, one block of 64 channels by default.

    Units: `patch` in pixels. `read_out`: the class token; the class and a distillation token with a head each, whose
    mean is the answer (`distilled`, which needs a teacher); or, without such tokens, the patches: `mean` averages, then
    normalises, as timm does; `gap` normalises, then averages, as CPVT does.
    Source: thesis 4.1 (one block); DeiT 3 (`distilled`); CPVT 3.3 (GAP). Differs: nothing.
    """

    shrinks: ClassVar[bool] = True

    kind: Literal["vit"] = Field(default="vit", init=False)
    dim: int = Field(default=64, gt=0, description="a positive number of channels")
    depth: int = Field(default=1, gt=0, description="a positive number of blocks")
    heads: int = Field(default=4, gt=0, description="a positive number of heads")
    patch: int = Field(default=4, gt=0, description="a positive side in pixels")
    mlp_ratio: float = Field(default=4.0, gt=0, description="a positive ratio of the MLP's width to dim")
    read_out: Literal["class", "distilled", "mean", "gap"] = Field(
        default="class", description="class, distilled, mean or gap"
    )

    @model_validator(mode="after")
    def _divides(self) -> ViT:
        require(self.dim % self.heads == 0, "dim", f"a multiple of heads ({self.heads})", self.dim)
        check_ratio(self.dim, self.mlp_ratio)
        return self

    @property
    def prefix(self) -> int:
        """How many tokens stand before the patches."""
        return {"class": 1, "distilled": 2, "mean": 0, "gap": 0}[self.read_out]

    def fit(self, size: Size) -> None:
        divides = all(side % self.patch == 0 for side in size[1:])
        require(divides, "model.patch", f"a divisor of the image's sides {size[1:]}", self.patch)

    def shapes(self, size: Size) -> tuple[Shape, ...]:
        rows, columns = size[1] // self.patch, size[2] // self.patch
        widths = Widths(self.dim, self.heads, self.dim // self.heads)
        return (Shape(widths, self.depth, rows, columns, self.prefix),)

    def parameters(self, size: Size, outputs: int, takes: Takes) -> int:
        dim, content = self.dim, self.dim - takes.tokens
        projections = linear(dim, 3 * dim - self.heads * (takes.q + takes.k + takes.v))
        block = 2 * norm(dim) + projections + linear(dim, dim) + mlp(dim, hidden(dim, self.mlp_ratio))
        heads = linear(dim, outputs) * (2 if self.read_out == "distilled" else 1)
        patches = convolution(size[0], content, self.patch)
        return patches + self.prefix * content + self.depth * block + norm(dim) + heads

    def kept(self, size: Size, pairs: int) -> int:
        """A token keeps what a block's norms, projections, MLP and pairs need, its pixels, and its code."""
        tokens = self.shapes(size)[0].tokens
        block = (11 + 2 * self.mlp_ratio) * self.dim + pairs * self.heads * tokens
        return tokens * (int(self.depth * block) + 4 * self.dim + size[0] * self.patch**2)


DEIT_TINY = ViT(dim=192, depth=12, heads=3, patch=16)
DEIT_SMALL = ViT(dim=384, depth=12, heads=6, patch=16)
DEIT_BASE = ViT(dim=768, depth=12, heads=12, patch=16)
"""The sizes of DeiT, which are those of ViT, too. Source: DeiT table 1."""
