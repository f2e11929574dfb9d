"""timm's ConViT with an encoding where its own table was: added to, or beside, the patches before the first block."""

from __future__ import annotations

import math

import torch
from timm.layers import PatchEmbed
from timm.models.convit import ConVit
from torch import Tensor

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import TimmHost, position, residual, timm_arguments, trunc_normal
from trainables.backbones.convit import ConViT
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Composition, Grid, Tokens


class PositionedConViT(TimmHost, ConVit):  # type: ignore[misc]
    """A ConViT with `encoding` for its tokens; the gated attention of its first blocks uses offsets as well.

    Raises: SpecError if the encoding reserves too many channels.
    """

    encoding: Composition

    def __init__(self, model: ConViT, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        composition = position(encoding, model.shape(size))
        arguments = timm_arguments(model, size, outputs)
        arguments["embed_dim"] //= model.num_heads  # a head's: timm multiplies
        ConVit.__init__(self, img_size=size[1:], use_pos_embed=False, **arguments)
        content = model.embed_dim - composition.reserved.tokens
        self.patch_embed = PatchEmbed(size[1:], model.patch_size, size[0], content)
        self.encoding, self.heads = composition, model.num_heads
        for block in self.blocks[: model.local_up_to_layer]:  # timm computes the offsets in the first forward pass
            block.attn.rel_indices = block.attn.get_rel_indices(self.patch_embed.num_patches)

    def features(self, images: Tensor) -> Tokens:
        """Returns the class token and the patches after the last norm. Shapes: to (B, 1 + P, D)."""
        rows, columns = self.patch_embed.grid_size
        x = self.encoding.tokens(Tokens(residual(self.patch_embed(images)), Grid(rows, columns)), 0).x
        for number, block in enumerate(self.blocks):
            if number == self.local_up_to_layer:
                x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
            x = block(x)
        return Tokens(self.norm(x), Grid(rows, columns, 1))

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Fills a parameter as timm does: gated attention looks at one neighbor in each head.

        Source: ConViT eqs. 7, 8; timm's `local_init`. Differs: heads beyond a square number of them start at random.
        """
        if name.endswith(".gating_param"):
            value.fill_(1.0)
        elif name.endswith(".attn.v.weight"):
            value.copy_(torch.eye(len(value), dtype=value.dtype))
        elif name.endswith(".pos_proj.weight"):
            trunc_normal(value, stream)
            near = neighbors(self.heads).to(value)
            value[: len(near)] = near
            value.mul_(self.locality_strength)
        else:
            super().init_parameter(name, value, stream)


def neighbors(heads: int) -> Tensor:
    """Returns the weights of (dx, dy, squared distance) by which each head looks at one neighbor. Shapes: (k^2, 3)."""
    side = math.isqrt(heads)
    offsets = 2 * torch.arange(side) - (side - 1)
    rows, columns = torch.meshgrid(offsets, offsets, indexing="ij")
    return torch.stack([rows.flatten(), columns.flatten(), -torch.ones(side**2)], dim=1)
