"""ConViT, as numbers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from trainables.backbones.backbone import Size, convolution, linear, mlp, norm
from trainables.backbones.one_grid import Patches, reason
from trainables.encodings.encoding import ReservedChannels
from trainables.spec import require


class ConViT(Patches):
    """Blocks with gated positional attention (GPSA), then, with the class token, blocks of a ViT.

    Position stays however `encoding` is set: GPSA's attention begins local, through learned functions of offsets.
    `local_up_to_layer`: how many first blocks have GPSA. `locality_strength`: how sharply it begins.
    Source: d'Ascoli et al. 2021, ConViT, section 3. Differs: square grids only, as timm's code counts on it.
    """

    reason: ClassVar[str] = reason("convit", "its attention has positions of its own and no place for terms of pairs")
    ordered_layers: ClassVar[bool] = True

    kind: Literal["convit"] = Field(default="convit", init=False)
    local_up_to_layer: int = Field(
        default=1, ge=0, description="a number of blocks with gated positional attention, below depth"
    )
    locality_strength: float = Field(default=1.0, gt=0, description="a positive strength of locality at the start")

    @model_validator(mode="after")
    def _class_token_enters(self) -> ConViT:
        layers = self.local_up_to_layer
        require(layers < self.depth, "local_up_to_layer", f"below depth ({self.depth})", layers)
        return self

    def check(self, size: Size) -> None:
        super().check(size)
        must = f"one of the others where the image is not square {size[1:]}"
        require(size[1] == size[2], "model.kind", must, self.kind)

    def parameters(self, size: Size, outputs: int, reserved: ReservedChannels) -> int:
        dim = self.embed_dim
        around = 2 * norm(dim) + mlp(dim, self.hidden) + linear(dim, dim) + 3 * dim**2
        gate = linear(3, self.num_heads) + self.num_heads
        patches = convolution(size[0], dim - reserved.tokens, self.patch_size) + dim
        return patches + self.depth * around + self.local_up_to_layer * gate + norm(dim) + linear(dim, outputs)

    def saved_activations(self, size: Size, saved_pairs: int) -> int:
        """Counts as for a ViT without fused attention; GPSA keeps its pairs in each of five steps."""
        tokens = self.shape(size).tokens
        linear_part = self.depth * (11 + 2 * self.mlp_ratio) * self.embed_dim
        pair_part = (4 * self.local_up_to_layer + 2 * self.depth) * self.num_heads * tokens
        return tokens * (int(linear_part) + pair_part + 4 * self.embed_dim + size[0] * self.patch_size**2)


CONVIT_SMALL = ConViT(embed_dim=432, depth=12, num_heads=9, patch_size=16, local_up_to_layer=10)
CONVIT_BASE = ConViT(embed_dim=768, depth=12, num_heads=16, patch_size=16, local_up_to_layer=10)
"""The sizes of the concat paper's table 1."""
