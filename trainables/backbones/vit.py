"""timm's VisionTransformer, as numbers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from trainables.backbones.backbone import Size, convolution, linear, mlp, norm
from trainables.backbones.one_grid import Patches
from trainables.encodings.encoding import INJECTION_POINTS, InjectionPoint, ReservedChannels
from trainables.spec import require


class ViT(Patches):
    """timm's VisionTransformer, one block of 64 channels by default.

    Units: `patch_size` in pixels. `pool`: the class token; the class and a distillation token with a head each, whose
    mean is the answer (`distilled`, which needs a teacher or weights that had one); or, without such tokens, the
    patches: `avg` averages, then normalizes, as timm does; `gap` normalizes, then averages. `drop_path`: the
    probability that an image leaves out a branch (attention or MLP) of the last block in training; it falls in a line
    to 0 in the first block. `registers`: learned tokens after the class token (and the distillation token), before the
    patches; they have no place in the image, and no head reads them. `layer_scale`: each branch is multiplied by a
    learned number a channel, which starts as this one; null leaves it out. `qk_norm`: queries and keys are normalized
    head by head, before the encoding changes them.
    Source: thesis 4.1 (one block); DeiT 4 (`distilled`); CPVT 3.3 (GAP); Darcet et al. 2024, Vision transformers need
    registers; Touvron et al. 2021, CaiT, section 2 (`layer_scale`); Dehghani et al. 2023, ViT-22B, section 2
    (`qk_norm`). Differs: CPVT does not say whether it averages before or after the norm; timm calls `registers`
    `reg_tokens` and `layer_scale` `init_values`, and its norms of queries and keys have biases, as here.
    """

    supported_points: ClassVar[frozenset[InjectionPoint]] = INJECTION_POINTS
    supports_shrinking: ClassVar[bool] = True
    ordered_layers: ClassVar[bool] = True

    kind: Literal["vit"] = Field(default="vit", init=False)
    depth: int = Field(default=1, gt=0, description="a positive number of blocks")
    pool: Literal["token", "distilled", "avg", "gap"] = Field(
        default="token", description="token, distilled, avg or gap"
    )
    drop_path: float = Field(default=0.0, ge=0, lt=1, description="a probability, 0 <= drop_path < 1")
    registers: int = Field(default=0, ge=0, description="a number of tokens, 0 or more")
    layer_scale: float | None = Field(default=None, gt=0, description="a positive number, or null for none")
    qk_norm: bool = Field(default=False, description="true (queries and keys are normalized) or false")

    @model_validator(mode="after")
    def _first_block_stays(self) -> ViT:
        must = "0 where depth is 1, because the first block is never left out"
        require(self.depth > 1 or self.drop_path == 0, "drop_path", must, self.drop_path)
        return self

    @property
    def class_tokens(self) -> int:
        """How many tokens the heads read, one each; 0 if they read the patches."""
        return {"token": 1, "distilled": 2, "avg": 0, "gap": 0}[self.pool]

    @property
    def prefix(self) -> int:
        return self.class_tokens + self.registers

    def parameters(self, size: Size, outputs: int, reserved: ReservedChannels) -> int:
        dim, content = self.embed_dim, self.embed_dim - reserved.tokens
        projections = linear(dim, 3 * dim - self.num_heads * (reserved.q + reserved.k + reserved.v))
        block = 2 * norm(dim) + projections + linear(dim, dim) + mlp(dim, self.hidden)
        if self.qk_norm:
            block += norm(dim // self.num_heads - reserved.q) + norm(dim // self.num_heads - reserved.k)
        if self.layer_scale is not None:
            block += 2 * dim
        heads = linear(dim, outputs) * (2 if self.pool == "distilled" else 1)
        patches = convolution(size[0], content, self.patch_size)
        return patches + self.prefix * content + self.depth * block + norm(dim) + heads

    def saved_activations(self, size: Size, saved_pairs: int) -> int:
        """Counts what a token keeps: what a block's norms, projections, MLP and pairs need, its pixels, and its code.

        In the last block of a model that is read at its prefix tokens, the others keep what norms and keys need.
        """
        tokens = self.shape(size).tokens
        layers = 11 + 2 * self.mlp_ratio + 2 * self.qk_norm + 2 * (self.layer_scale is not None)
        block = layers * self.embed_dim + saved_pairs * self.num_heads * tokens
        read = self.prefix if self.class_tokens else tokens
        whole = tokens * (self.depth - 1) + read
        pixels = size[0] * self.patch_size**2
        return int(whole * block) + self.embed_dim * (4 * read + 3 * (tokens - read)) + tokens * pixels


DEIT_TINY = ViT(embed_dim=192, depth=12, num_heads=3, patch_size=16)
DEIT_SMALL = ViT(embed_dim=384, depth=12, num_heads=6, patch_size=16)
DEIT_BASE = ViT(embed_dim=768, depth=12, num_heads=12, patch_size=16)
"""The sizes of DeiT, which are those of ViT, too. Source: DeiT table 1."""
