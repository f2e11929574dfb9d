"""CaiT, as numbers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainables.backbones.backbone import Size, convolution, linear, mlp, norm
from trainables.backbones.one_grid import Patches, reason
from trainables.encodings.encoding import ReservedChannels


class CaiT(Patches):
    """Blocks with talking heads (attention that mixes heads), then blocks in which a class token attends to patches.

    `init_values`: what each residual is multiplied with at the start; the paper takes 0.1 for up to 18 blocks.
    Source: Touvron et al. 2021, Going deeper with image transformers, sections 2 and 3.
    Differs: nothing.
    """

    reason: ClassVar[str] = reason("cait", "its attention mixes heads and has no place for terms of pairs")
    ordered_layers: ClassVar[bool] = True

    kind: Literal["cait"] = Field(default="cait", init=False)
    depth_token_only: int = Field(default=2, gt=0, description="a positive number of blocks of the class token")
    init_values: float = Field(default=0.1, gt=0, description="a positive factor of the residuals at the start")

    def parameters(self, size: Size, outputs: int, reserved: ReservedChannels) -> int:
        dim, around = self.embed_dim, 2 * norm(self.embed_dim) + mlp(self.embed_dim, self.hidden) + 2 * self.embed_dim
        block = around + linear(dim, 3 * dim) + linear(dim, dim) + 2 * linear(self.num_heads, self.num_heads)
        looking = 2 * norm(dim) + mlp(dim, 4 * dim) + 2 * dim + 4 * linear(dim, dim)
        patches = convolution(size[0], dim - reserved.tokens, self.patch_size)
        return patches + dim + self.depth * block + self.depth_token_only * looking + norm(dim) + linear(dim, outputs)

    def saved_activations(self, size: Size, saved_pairs: int) -> int:
        """Counts what a token keeps for norms, projections and MLP, its pairs in each of four steps, and its pixels."""
        tokens = self.shape(size).tokens
        block = (13 + 2 * self.mlp_ratio) * self.embed_dim + 5 * self.num_heads * tokens
        around = (4 + 5 * self.depth_token_only) * self.embed_dim + size[0] * self.patch_size**2
        return tokens * (int(self.depth * block) + around)


CAIT_XXS36 = CaiT(embed_dim=192, depth=36, num_heads=4, patch_size=16, init_values=1e-5)
CAIT_XS36 = CaiT(embed_dim=288, depth=36, num_heads=6, patch_size=16, init_values=1e-5)
"""The sizes of the concat paper's table 1. Differs: the scale of residuals is timm's, also for XS36."""
