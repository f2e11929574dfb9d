"""VOLO, as numbers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from trainables.backbones.backbone import Size, check_ratio, convolution, hidden, linear, mlp, norm
from trainables.backbones.one_grid import RATIO, Count, OneGrid, reason
from trainables.encodings.encoding import ReservedChannels, Shape, Widths
from trainables.spec import require


class VOLO(OneGrid):
    """Outlookers on a fine grid, then a ViT's blocks on one half as fine, then two blocks of a class token.

    Position stays however `encoding` is set: stem and outlookers pad with zeros. The encoding enters after the
    outlookers, on the coarser grid. `embed_dims`, `num_heads`: of outlookers and of the other blocks; `layers`: of the
    outlookers and of one or more stages of the others.
    Source: Yuan et al. 2021, VOLO, section 3. Differs: no token labelling, neither its head nor its mixed tokens.
    """

    reason: ClassVar[str] = reason("volo", "its blocks have no place for terms of pairs")

    kind: Literal["volo"] = Field(default="volo", init=False)
    embed_dims: tuple[Count, Count] = Field(
        default=(32, 64), strict=False, description="two numbers of channels: of outlookers and of the other blocks"
    )
    layers: tuple[Count, ...] = Field(
        default=(1, 2), strict=False, description="two or more numbers of blocks, the outlookers' first"
    )
    num_heads: tuple[Count, Count] = Field(
        default=(2, 4), strict=False, description="two numbers of heads, which divide the dims"
    )
    patch_size: Literal[4, 8, 16] = Field(default=4, description="4, 8 or 16 (pixels a side)")
    stem_hidden_dim: int = Field(default=16, gt=0, description="a positive number of channels of the stem")
    mlp_ratio: float = Field(default=3.0, gt=0, description=RATIO)

    @model_validator(mode="after")
    def _divides(self) -> VOLO:
        divides = all(dim % heads == 0 for dim, heads in zip(self.embed_dims, self.num_heads, strict=True))
        require(divides, "embed_dims", f"multiples of num_heads {self.num_heads}", list(self.embed_dims))
        require(len(self.layers) > 1, "layers", "two or more numbers of blocks", list(self.layers))
        check_ratio(min(self.embed_dims), self.mlp_ratio)
        return self

    def check(self, size: Size) -> None:
        divides = all(side % (2 * self.patch_size) == 0 for side in size[1:])
        must = f"such that twice its side divides the image's {size[1:]}"
        require(divides, "model.patch_size", must, self.patch_size)

    def shape(self, size: Size) -> Shape:
        widths = Widths(self.embed_dims[1], self.num_heads[1], self.embed_dims[1] // self.num_heads[1])
        return Shape(widths, sum(self.layers[1:]), size[1] // self.patch_size // 2, size[2] // self.patch_size // 2, 0)

    def parameters(self, size: Size, outputs: int, reserved: ReservedChannels) -> int:
        (fine, dim), content = self.embed_dims, self.embed_dims[1] - reserved.tokens
        stem = self.stem_hidden_dim
        patches = convolution(size[0], stem, 7, False) + 2 * convolution(stem, stem, 3, False)
        patches += 3 * norm(stem) + convolution(stem, fine, self.patch_size // 2)
        outlook = fine**2 + linear(fine, 81 * self.num_heads[0]) + linear(fine, fine)
        outlooker = 2 * norm(fine) + outlook + mlp(fine, hidden(fine, self.mlp_ratio))
        block = 2 * norm(dim) + 3 * dim**2 + linear(dim, dim) + mlp(dim, hidden(dim, self.mlp_ratio))
        blocks = sum(self.layers[1:]) + 2  # those of the class token are as large
        outer = convolution(fine, content, 2) + dim + norm(dim) + linear(dim, outputs)
        return patches + self.layers[0] * outlooker + blocks * block + outer

    def saved_activations(self, size: Size, saved_pairs: int) -> int:
        """Returns how many numbers an image saves for the backward pass, as each layer of timm's VOLO keeps them.

        The stem saves the most where patches are small. An outlooker saves the 3 x 3 neighbors of each token.
        """
        (fine, dim), pixels = self.embed_dims, size[1] * size[2] // 4
        stem = pixels * 7 * self.stem_hidden_dim
        outlook = (9 + 2 * self.mlp_ratio) * fine + 9 * fine // 2 + 41 * self.num_heads[0]
        block = (11 + 2 * self.mlp_ratio) * dim
        tokens = self.shape(size).tokens
        return stem + tokens * int(4 * self.layers[0] * outlook + sum(self.layers[1:]) * block + 16 * dim)


VOLO_D1 = VOLO(embed_dims=(192, 384), layers=(4, 4, 8, 2), num_heads=(6, 12), patch_size=8, stem_hidden_dim=64)
VOLO_D2 = VOLO(embed_dims=(256, 512), layers=(6, 4, 10, 4), num_heads=(8, 16), patch_size=8, stem_hidden_dim=64)
"""The sizes of the concat paper's table 1."""
