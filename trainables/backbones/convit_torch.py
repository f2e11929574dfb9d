"""timm's ConViT with an encoding where its own table was: added to, or beside, the patches before the first block."""

from __future__ import annotations

import math

import torch
from timm.layers import PatchEmbed
from timm.models.convit import ConVit
from torch import Tensor

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import Host, position, residual
from trainables.backbones.convit import ConViT
from trainables.backbones.initial_torch import timm_init, trunc_normal
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Composition, Grid, Tokens


class PositionedConViT(Host, ConVit):  # type: ignore[misc]
    """A ConViT with `encoding` for its tokens; the gated attention of its first blocks uses offsets as well.

    Raises: SpecError if the encoding reserves too many channels.
    """

    encoding: Composition

    def __init__(self, model: ConViT, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        (shape,) = model.shapes(size)
        composition = position(encoding, shape)
        ConVit.__init__(
            self,
            img_size=size[1:],
            patch_size=model.patch_size,
            in_chans=size[0],
            num_classes=outputs,
            embed_dim=model.embed_dim // model.num_heads,  # a head's: timm multiplies
            depth=model.depth,
            num_heads=model.num_heads,
            mlp_ratio=model.mlp_ratio,
            local_up_to_layer=model.local_up_to_layer,
            locality_strength=model.locality_strength,
            use_pos_embed=False,
        )
        self.patch_embed = PatchEmbed(
            size[1:], model.patch_size, size[0], model.embed_dim - composition.reserved.tokens
        )
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
        """Initializes the backbone's parameters as timm does: gated attention looks at one neighbor in each head.

        Source: ConViT eqs. 7, 8; timm's `local_init`. Differs: heads beyond a square number of them start at random.
        """
        if name == "cls_token":
            trunc_normal(value, stream)
        elif name.endswith(".gating_param"):
            value.fill_(1.0)
        elif name.endswith(".attn.v.weight"):
            value.copy_(torch.eye(len(value), dtype=value.dtype))
        elif name.endswith(".pos_proj.weight"):
            trunc_normal(value, stream)
            near = neighbors(self.heads).to(value)
            value[: len(near)] = near
            value.mul_(self.locality_strength)
        else:
            timm_init(self, name, value, stream)


def neighbors(heads: int) -> Tensor:
    """Returns the weights of (dx, dy, squared distance) in each head, by which each looks at one neighbor.

    Shapes: (k^2, 3).
    """
    side = math.isqrt(heads)
    offsets = 2 * torch.arange(side) - (side - 1)
    rows, columns = torch.meshgrid(offsets, offsets, indexing="ij")
    return torch.stack([rows.flatten(), columns.flatten(), -torch.ones(side**2)], dim=1)
