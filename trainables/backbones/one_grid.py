"""What the backbones with one grid of tokens share: ViT, CaiT, ConViT, VOLO and TNT.

In all but the ViT, a code is injected where timm adds the backbone's own table. That table is left out: `encoding` is
the only code. They are read out at their class token, without dropout.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from trainables.backbones.backbone import ModelSpec, Size, check_heads, check_patches, check_ratio, hidden
from trainables.encodings.encoding import InjectionPoint, Shape, Widths

Count = Annotated[int, Field(gt=0)]
DIM, HEADS = "a positive number of channels", "a positive number of heads"
RATIO = "a positive ratio of the MLP's width to dim"


def reason(kind: str, why: str) -> str:
    """Returns the end of the error message for an encoding that a backbone with one grid does not support."""
    return f"none, or what enters {kind} before its first block: a code or a padded convolution ({why})"


class OneGrid(ModelSpec):
    """What these backbones have in common: position is injected into the tokens before the first block that sees it."""

    supported_points: ClassVar[frozenset[InjectionPoint]] = frozenset({"first"})

    def shape(self, size: Size) -> Shape:
        raise NotImplementedError

    def shapes(self, size: Size) -> tuple[Shape, ...]:
        return (self.shape(size),)


class Patches(OneGrid):
    """What ViT, CaiT, ConViT and TNT have in common: they cut an image into patches, and keep one width."""

    embed_dim: int = Field(default=64, gt=0, description=DIM)
    depth: int = Field(default=2, gt=0, description="a positive number of blocks")
    num_heads: int = Field(default=4, gt=0, description=HEADS)
    patch_size: int = Field(default=4, gt=0, description="a positive side in pixels")
    mlp_ratio: float = Field(default=4.0, gt=0, description=RATIO)

    @model_validator(mode="after")
    def _divides(self) -> Patches:
        check_heads(self.embed_dim, self.num_heads)
        check_ratio(self.embed_dim, self.mlp_ratio)
        return self

    @property
    def prefix(self) -> int:
        """How many tokens stand before the patches where position is injected."""
        return 0

    @property
    def hidden(self) -> int:
        return hidden(self.embed_dim, self.mlp_ratio)

    def check(self, size: Size) -> None:
        check_patches(size, self.patch_size)

    def shape(self, size: Size) -> Shape:
        widths = Widths(self.embed_dim, self.num_heads, self.embed_dim // self.num_heads)
        return Shape(widths, self.depth, size[1] // self.patch_size, size[2] // self.patch_size, self.prefix)
