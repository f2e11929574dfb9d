"""The trunks with one grid of tokens beside the ViT, as numbers: CaiT, ConViT, VOLO and TNT.

In each a code enters where timm adds the trunk's own table, which is left out: `encoding` is the only code of tokens.
All are read out at their class token; nothing is dropped out.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from trainables.encoding_spec import Moment, Shape, Takes, Widths
from trainables.layer_sizes import convolution, hidden, linear, mlp, norm
from trainables.model_spec import ModelSpec, Size, check_ratio
from trainables.spec import require

Count = Annotated[int, Field(gt=0)]

_DIM, _HEADS = "a positive number of channels", "a positive number of heads"
_DEPTH, _PATCH = "a positive number of blocks", "a positive side in pixels"
_RATIO = "a positive ratio of the MLP's width to dim"


def room(kind: str, why: str) -> str:
    """What a trunk with one grid has room for, in words."""
    return f"none, or what enters {kind} before its first block: a code or a padded convolution ({why})"


class OneGrid(ModelSpec):
    """What these trunks say alike: position enters with the tokens before the first block that sees it."""

    holds: ClassVar[frozenset[Moment]] = frozenset({"first"})

    def shape(self, size: Size) -> Shape:
        """The one grid, as an encoding sees it."""
        raise NotImplementedError

    def shapes(self, size: Size) -> tuple[Shape, ...]:
        return (self.shape(size),)


class Patches(OneGrid):
    """What those of them say alike that cut an image as a ViT does. `prefix`: tokens that have come before position."""

    prefix: ClassVar[int] = 0

    dim: int = Field(default=64, gt=0, description=_DIM)
    depth: int = Field(default=2, gt=0, description=_DEPTH)
    heads: int = Field(default=4, gt=0, description=_HEADS)
    patch: int = Field(default=4, gt=0, description=_PATCH)
    mlp_ratio: float = Field(default=4.0, gt=0, description=_RATIO)

    @model_validator(mode="after")
    def _divides(self) -> Patches:
        require(self.dim % self.heads == 0, "dim", f"a multiple of heads ({self.heads})", self.dim)
        check_ratio(self.dim, self.mlp_ratio)
        return self

    @property
    def hidden(self) -> int:
        """The width of the MLPs."""
        return hidden(self.dim, self.mlp_ratio)

    def fit(self, size: Size) -> None:
        divides = all(side % self.patch == 0 for side in size[1:])
        require(divides, "model.patch", f"a divisor of the image's sides {size[1:]}", self.patch)

    def shape(self, size: Size) -> Shape:
        widths = Widths(self.dim, self.heads, self.dim // self.heads)
        return Shape(widths, self.depth, size[1] // self.patch, size[2] // self.patch, self.prefix)


class CaiT(Patches):
    """Blocks whose heads talk to each other, then blocks in which a class token, which enters there, looks at the rest.

    `layer_scale`: what each residual is multiplied with at the start.
    Source: Touvron et al. 2021, Going deeper with image transformers, sections 2 and 3; 0.1 up to 18 blocks.
    Differs: nothing.
    """

    room: ClassVar[str] = room("cait", "its attention mixes heads and has no place for terms of pairs")

    kind: Literal["cait"] = Field(default="cait", init=False)
    class_depth: int = Field(default=2, gt=0, description="a positive number of blocks of the class token")
    layer_scale: float = Field(default=0.1, gt=0, description="a positive factor of the residuals at the start")

    def parameters(self, size: Size, outputs: int, takes: Takes) -> int:
        dim, around = self.dim, 2 * norm(self.dim) + mlp(self.dim, self.hidden) + 2 * self.dim
        block = around + linear(dim, 3 * dim) + linear(dim, dim) + 2 * linear(self.heads, self.heads)
        looking = 2 * norm(dim) + mlp(dim, 4 * dim) + 2 * dim + 4 * linear(dim, dim)
        patches = convolution(size[0], dim - takes.tokens, self.patch)
        return patches + dim + self.depth * block + self.class_depth * looking + norm(dim) + linear(dim, outputs)

    def kept(self, size: Size, pairs: int) -> int:
        """A token keeps what norms, projections and MLP need, and its pairs in each of four steps; its pixels, too."""
        tokens = self.shape(size).tokens
        block = (13 + 2 * self.mlp_ratio) * self.dim + 5 * self.heads * tokens
        return tokens * (int(self.depth * block) + (4 + 5 * self.class_depth) * self.dim + size[0] * self.patch**2)


class ConViT(Patches):
    """Blocks with gated positional attention (GPSA), then, with the class token, blocks of a ViT.

    Position stays however `encoding` is set: GPSA's attention begins local, through learned functions of offsets.
    `local`: how many first blocks have GPSA. `locality`: how sharply it begins.
    Source: d'Ascoli et al. 2021, ConViT, section 3. Differs: square grids only, as timm's code counts on it.
    """

    room: ClassVar[str] = room("convit", "its attention has positions of its own and no place for terms of pairs")

    kind: Literal["convit"] = Field(default="convit", init=False)
    local: int = Field(default=1, ge=0, description="a number of blocks with gated positional attention, below depth")
    locality: float = Field(default=1.0, gt=0, description="a positive strength of locality at the start")

    @model_validator(mode="after")
    def _class_token_enters(self) -> ConViT:
        require(self.local < self.depth, "local", f"below depth ({self.depth})", self.local)
        return self

    def fit(self, size: Size) -> None:
        super().fit(size)
        must = f"one of the others where the image is not square {size[1:]}"
        require(size[1] == size[2], "model.kind", must, self.kind)

    def parameters(self, size: Size, outputs: int, takes: Takes) -> int:
        dim = self.dim
        around = 2 * norm(dim) + mlp(dim, self.hidden) + linear(dim, dim) + 3 * dim**2
        gate = linear(3, self.heads) + self.heads
        patches = convolution(size[0], dim - takes.tokens, self.patch) + dim
        return patches + self.depth * around + self.local * gate + norm(dim) + linear(dim, outputs)

    def kept(self, size: Size, pairs: int) -> int:
        """As a ViT's without fused attention; GPSA keeps its pairs in each of five steps."""
        tokens = self.shape(size).tokens
        linear_part = self.depth * (11 + 2 * self.mlp_ratio) * self.dim
        pair_part = (4 * self.local + 2 * self.depth) * self.heads * tokens
        return tokens * (int(linear_part) + pair_part + 4 * self.dim + size[0] * self.patch**2)


class VOLO(OneGrid):
    """Outlookers on a fine grid, then a ViT's blocks on one half as fine, then two blocks of a class token.

    Position stays however `encoding` is set: stem and outlookers pad with zeros. The encoding enters after the
    outlookers, on the coarser grid. `dims`, `heads`: of outlookers and of the other blocks; `depths`: of the
    outlookers and of one or more stages of the others.
    Source: Yuan et al. 2021, VOLO, section 3. Differs: no token labelling, neither its head nor its mixed tokens.
    """

    room: ClassVar[str] = room("volo", "its blocks have no place for terms of pairs")

    kind: Literal["volo"] = Field(default="volo", init=False)
    dims: tuple[Count, Count] = Field(
        default=(32, 64), strict=False, description="two numbers of channels: of outlookers and of the other blocks"
    )
    depths: tuple[Count, ...] = Field(
        default=(1, 2), strict=False, description="two or more numbers of blocks, the outlookers' first"
    )
    heads: tuple[Count, Count] = Field(
        default=(2, 4), strict=False, description="two numbers of heads, which divide the dims"
    )
    patch: Literal[4, 8, 16] = Field(default=4, description="4, 8 or 16 (pixels a side)")
    stem: int = Field(default=16, gt=0, description="a positive number of channels of the stem")
    mlp_ratio: float = Field(default=3.0, gt=0, description=_RATIO)

    @model_validator(mode="after")
    def _divides(self) -> VOLO:
        divides = all(dim % heads == 0 for dim, heads in zip(self.dims, self.heads, strict=True))
        require(divides, "dims", f"multiples of heads {self.heads}", list(self.dims))
        require(len(self.depths) > 1, "depths", "two or more numbers of blocks", list(self.depths))
        check_ratio(min(self.dims), self.mlp_ratio)
        return self

    def fit(self, size: Size) -> None:
        divides = all(side % (2 * self.patch) == 0 for side in size[1:])
        require(divides, "model.patch", f"such that twice its side divides the image's {size[1:]}", self.patch)

    def shape(self, size: Size) -> Shape:
        widths = Widths(self.dims[1], self.heads[1], self.dims[1] // self.heads[1])
        return Shape(widths, sum(self.depths[1:]), size[1] // self.patch // 2, size[2] // self.patch // 2, 0)

    def parameters(self, size: Size, outputs: int, takes: Takes) -> int:
        (fine, dim), content = self.dims, self.dims[1] - takes.tokens
        stem = convolution(size[0], self.stem, 7, False) + 2 * convolution(self.stem, self.stem, 3, False)
        patches = stem + 3 * norm(self.stem) + convolution(self.stem, fine, self.patch // 2)
        outlook = fine**2 + linear(fine, 81 * self.heads[0]) + linear(fine, fine)
        outlooker = 2 * norm(fine) + outlook + mlp(fine, hidden(fine, self.mlp_ratio))
        block = 2 * norm(dim) + 3 * dim**2 + linear(dim, dim) + mlp(dim, hidden(dim, self.mlp_ratio))
        blocks = sum(self.depths[1:]) + 2  # those of the class token are as large
        outer = convolution(fine, content, 2) + dim + norm(dim) + linear(dim, outputs)
        return patches + self.depths[0] * outlooker + blocks * block + outer

    def kept(self, size: Size, pairs: int) -> int:
        """The stem keeps most where patches are small; an outlooker a 3 x 3 neighbourhood for each of a quarter."""
        (fine, dim), pixels = self.dims, size[1] * size[2] // 4
        stem = pixels * 7 * self.stem
        outlook = (9 + 2 * self.mlp_ratio) * fine + 9 * fine // 2 + 41 * self.heads[0]
        block = (11 + 2 * self.mlp_ratio) * dim
        tokens = self.shape(size).tokens
        return stem + tokens * int(4 * self.depths[0] * outlook + sum(self.depths[1:]) * block + 16 * dim)


class TNT(Patches):
    """A transformer for the pixels of each patch inside one for patches.

    `stride`: how many pixels of the image a side make one of the patch's; pixels keep their learned table, which says
    where in its patch a pixel is, however `encoding` is set.
    Source: Han et al. 2021, Transformer in transformer, section 2. Differs: as timm's newer weights (norms around the
    projection of pixels).
    """

    prefix: ClassVar[int] = 1
    room: ClassVar[str] = room("tnt", "its attention has no place for terms of pairs")

    kind: Literal["tnt"] = Field(default="tnt", init=False)
    inner_dim: int = Field(default=16, gt=0, description=_DIM)
    inner_heads: int = Field(default=4, gt=0, description=_HEADS)
    stride: int = Field(default=2, gt=0, description="a positive number of pixels")

    @model_validator(mode="after")
    def _inner_divides(self) -> TNT:
        fits = self.inner_dim % self.inner_heads == 0
        require(fits, "inner_dim", f"a multiple of inner_heads ({self.inner_heads})", self.inner_dim)
        return self

    @property
    def pixels(self) -> int:
        """How many pixels the inner transformer sees of a patch."""
        return int((-(-self.patch // self.stride)) ** 2)

    def parameters(self, size: Size, outputs: int, takes: Takes) -> int:
        dim, inner, content = self.dim, self.inner_dim, self.dim - takes.tokens
        patch = inner * self.pixels
        first = convolution(size[0], inner, 7) + patch + norm(patch) + linear(patch, content) + norm(content) + content
        inside = 2 * norm(inner) + 3 * inner**2 + linear(inner, inner) + mlp(inner, 4 * inner)
        between = norm(patch) + patch * dim + norm(dim)
        outside = 2 * norm(dim) + 3 * dim**2 + linear(dim, dim) + mlp(dim, self.hidden)
        return first + self.depth * (inside + between + outside) + norm(dim) + linear(dim, outputs)

    def kept(self, size: Size, pairs: int) -> int:
        """What a patch keeps outside and for its pixels inside, neither with fused attention."""
        tokens = self.shape(size).tokens
        inside = self.pixels * (21 * self.inner_dim + 2 * self.inner_heads * self.pixels)
        outside = (13 + 2 * self.mlp_ratio) * self.dim + 2 * self.heads * tokens
        return tokens * (int(self.depth * (inside + outside)) + 4 * self.dim + size[0] * self.patch**2)


CAIT_XXS36 = CaiT(dim=192, depth=36, heads=4, patch=16, layer_scale=1e-5)
CAIT_XS36 = CaiT(dim=288, depth=36, heads=6, patch=16, layer_scale=1e-5)
CONVIT_SMALL = ConViT(dim=432, depth=12, heads=9, patch=16, local=10)
CONVIT_BASE = ConViT(dim=768, depth=12, heads=16, patch=16, local=10)
VOLO_D1 = VOLO(dims=(192, 384), depths=(4, 4, 8, 2), heads=(6, 12), patch=8, stem=64)
VOLO_D2 = VOLO(dims=(256, 512), depths=(6, 4, 10, 4), heads=(8, 16), patch=8, stem=64)
TNT_SMALL = TNT(dim=384, depth=12, heads=6, patch=16, inner_dim=24, stride=4)
TNT_BASE = TNT(dim=640, depth=12, heads=10, patch=16, inner_dim=40, stride=4)
"""The sizes of the papers. Source: the concat paper's table 1. Differs: CaiT's scale is timm's, also for XS36."""
