"""timm's ConViT with an encoding where its own table was: added to, or beside, the patches before the first block."""

from __future__ import annotations

import math

import torch
from timm.layers import PatchEmbed
from timm.models.convit import ConVit
from torch import Tensor

from trainables.catalog import EncodingSpec
from trainables.encoding import Composition, Grid, Tokens
from trainables.host import Host, position
from trainables.initial import cut_normal, timm_start
from trainables.model_spec import Size
from trainables.trunk_specs import ConViT


class PositionedConViT(Host, ConVit):  # type: ignore[misc]
    """A ConViT with `encoding` for its tokens; the gated attention of its first blocks knows offsets all the same.

    Raises: SpecError where the encoding takes too many channels.
    """

    encoding: Composition

    def __init__(self, model: ConViT, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        (shape,) = model.shapes(size)
        found = position(encoding, shape)
        ConVit.__init__(
            self,
            img_size=size[1:],
            patch_size=model.patch,
            in_chans=size[0],
            num_classes=outputs,
            embed_dim=model.dim // model.heads,  # a head's: timm multiplies
            depth=model.depth,
            num_heads=model.heads,
            mlp_ratio=model.mlp_ratio,
            local_up_to_layer=model.local,
            locality_strength=model.locality,
            use_pos_embed=False,
        )
        self.patch_embed = PatchEmbed(size[1:], model.patch, size[0], model.dim - found.takes.tokens)
        self.encoding, self.heads = found, model.heads

    def features(self, images: Tensor) -> Tokens:
        """The class token and the patches after the last norm. Shapes: to (B, 1 + P, D)."""
        rows, columns = self.patch_embed.grid_size
        x = self.encoding.tokens(Tokens(self.patch_embed(images), Grid(rows, columns)), 0).x
        for number, block in enumerate(self.blocks):
            if number == self.local_up_to_layer:
                x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
            x = block(x)
        return Tokens(self.norm(x), Grid(rows, columns, 1))

    def start(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Starts the trunk's parameters as timm does: gated attention looks at one neighbour a head.

        Source: ConViT eqs. 7, 8; timm's `local_init`. Differs: heads beyond a square number of them start at random.
        """
        if name == "cls_token":
            cut_normal(value, stream)
        elif name.endswith(".gating_param"):
            value.fill_(1.0)
        elif name.endswith(".attn.v.weight"):
            value.copy_(torch.eye(len(value), dtype=value.dtype))
        elif name.endswith(".pos_proj.weight"):
            cut_normal(value, stream)
            near = neighbours(self.heads).to(value)
            value[: len(near)] = near
            value.mul_(self.locality_strength)
        else:
            timm_start(self, name, value, stream)


def neighbours(heads: int) -> Tensor:
    """What heads weigh (dx, dy, squared distance) with so that each looks at one neighbour. Shapes: (k^2, 3)."""
    side = math.isqrt(heads)
    offsets = 2 * torch.arange(side) - (side - 1)
    rows, columns = torch.meshgrid(offsets, offsets, indexing="ij")
    return torch.stack([rows.flatten(), columns.flatten(), -torch.ones(side**2)], dim=1)
