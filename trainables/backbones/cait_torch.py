"""timm's CaiT with an encoding where its own table was: added to, or beside, the patches before the first block."""

from __future__ import annotations

import torch
from timm.layers import PatchEmbed
from timm.models.cait import Cait
from torch import Tensor

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import TimmHost, position, residual, timm_arguments
from trainables.backbones.cait import CaiT
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Composition, Grid, Tokens


class PositionedCaiT(TimmHost, Cait):  # type: ignore[misc]
    """A CaiT whose only source of position is `encoding`. The class token comes in after the blocks, without a place.

    Raises: SpecError if the encoding reserves too many channels.
    """

    encoding: Composition

    def __init__(self, model: CaiT, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        composition = position(encoding, model.shape(size))
        Cait.__init__(self, img_size=size[1:], **timm_arguments(model, size, outputs))
        del self.pos_embed
        content = model.embed_dim - composition.reserved.tokens
        self.patch_embed = PatchEmbed(size[1:], model.patch_size, size[0], content)
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
        if name.endswith((".gamma_1", ".gamma_2")):
            value.fill_(self.layer_scale)
        else:
            super().init_parameter(name, value, stream)
