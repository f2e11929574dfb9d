"""TNT, as numbers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from trainables.backbones.backbone import Size, convolution, linear, mlp, norm
from trainables.backbones.one_grid import DIM, HEADS, Patches, reason
from trainables.encodings.encoding import ReservedChannels
from trainables.spec import require


class TNT(Patches):
    """A transformer for the pixels of each patch inside one for patches.

    `first_stride`: how many pixels of the image, along a side, make one pixel of a patch. Pixels keep their learned
    table, which says where a pixel is in its patch, whatever `encoding` is.
    Source: Han et al. 2021, Transformer in transformer, section 2. Differs: as timm's newer weights (norms around the
    projection of pixels).
    """

    prefix: ClassVar[int] = 1
    reason: ClassVar[str] = reason("tnt", "its attention has no place for terms of pairs")

    kind: Literal["tnt"] = Field(default="tnt", init=False)
    inner_dim: int = Field(default=16, gt=0, description=DIM)
    num_heads_inner: int = Field(default=4, gt=0, description=HEADS)
    first_stride: int = Field(default=2, gt=0, description="a positive number of pixels")

    @model_validator(mode="after")
    def _inner_divides(self) -> TNT:
        fits = self.inner_dim % self.num_heads_inner == 0
        require(fits, "inner_dim", f"a multiple of num_heads_inner ({self.num_heads_inner})", self.inner_dim)
        return self

    @property
    def pixels(self) -> int:
        """How many pixels the inner transformer sees of a patch."""
        return int((-(-self.patch_size // self.first_stride)) ** 2)

    def parameters(self, size: Size, outputs: int, reserved: ReservedChannels) -> int:
        dim, inner, content = self.embed_dim, self.inner_dim, self.embed_dim - reserved.tokens
        patch = inner * self.pixels
        first = convolution(size[0], inner, 7) + patch + norm(patch) + linear(patch, content) + norm(content) + content
        inside = 2 * norm(inner) + 3 * inner**2 + linear(inner, inner) + mlp(inner, 4 * inner)
        between = norm(patch) + patch * dim + norm(dim)
        outside = 2 * norm(dim) + 3 * dim**2 + linear(dim, dim) + mlp(dim, self.hidden)
        return first + self.depth * (inside + between + outside) + norm(dim) + linear(dim, outputs)

    def saved_activations(self, size: Size, saved_pairs: int) -> int:
        """Returns what a patch keeps outside and for its pixels inside, neither with fused attention."""
        tokens = self.shape(size).tokens
        inside = self.pixels * (21 * self.inner_dim + 2 * self.num_heads_inner * self.pixels)
        outside = (13 + 2 * self.mlp_ratio) * self.embed_dim + 2 * self.num_heads * tokens
        return tokens * (int(self.depth * (inside + outside)) + 4 * self.embed_dim + size[0] * self.patch_size**2)


TNT_SMALL = TNT(embed_dim=384, depth=12, num_heads=6, patch_size=16, inner_dim=24, first_stride=4)
TNT_BASE = TNT(embed_dim=640, depth=12, num_heads=10, patch_size=16, inner_dim=40, first_stride=4)
"""The sizes of the concat paper's table 1."""
