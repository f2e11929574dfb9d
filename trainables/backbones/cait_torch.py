"""timm's CaiT with an encoding where its own table was: added to, or beside, the patches before the first block."""

from __future__ import annotations

import torch
from timm.layers import PatchEmbed
from timm.models.cait import Cait
from torch import Tensor

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import Host, position, residual
from trainables.backbones.cait import CaiT
from trainables.backbones.initial_torch import timm_init, trunc_normal
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Composition, Grid, Tokens


class PositionedCaiT(Host, Cait):  # type: ignore[misc]
    """A CaiT whose only source of position is `encoding`. The class token comes in after the blocks, without a place.

    Raises: SpecError if the encoding reserves too many channels.
    """

    encoding: Composition

    def __init__(self, model: CaiT, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        (shape,) = model.shapes(size)
        composition = position(encoding, shape)
        Cait.__init__(
            self,
            img_size=size[1:],
            patch_size=model.patch_size,
            in_chans=size[0],
            num_classes=outputs,
            embed_dim=model.embed_dim,
            depth=model.depth,
            num_heads=model.num_heads,
            mlp_ratio=model.mlp_ratio,
            init_values=model.init_values,
            depth_token_only=model.depth_token_only,
        )
        del self.pos_embed
        self.patch_embed = PatchEmbed(
            size[1:], model.patch_size, size[0], model.embed_dim - composition.reserved.tokens
        )
        self.encoding, self.layer_scale = composition, model.init_values

    def features(self, images: Tensor) -> Tokens:
        """Returns the class token and the patches after the last norm. Shapes: to (B, 1 + P, D)."""
        rows, columns = self.patch_embed.grid_size
        t = self.encoding.tokens(Tokens(residual(self.patch_embed(images)), Grid(rows, columns)), 0)
        x, token = self.blocks(t.x), self.cls_token.expand(t.x.shape[0], -1, -1)
        for block in self.blocks_token_only:
            token = block(x, token)
        return Tokens(self.norm(torch.cat([token, x], dim=1)), Grid(rows, columns, 1))

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Initializes the backbone's parameters as timm does, residuals at their scale."""
        if name == "cls_token":
            trunc_normal(value, stream)
        elif name.endswith((".gamma_1", ".gamma_2")):
            value.fill_(self.layer_scale)
        else:
            timm_init(self, name, value, stream)
