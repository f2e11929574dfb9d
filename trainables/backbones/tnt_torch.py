"""timm's TNT with an encoding where its table of patches was; its table of the pixels in a patch stays."""

from __future__ import annotations

import torch
from timm.models import tnt as timm_tnt
from torch import Tensor, nn

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import TimmHost, position, residual, timm_arguments
from trainables.backbones.tnt import TNT
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Composition, Grid, Tokens


class PositionedTNT(TimmHost, timm_tnt.TNT):  # type: ignore[misc]
    """A TNT in which `encoding` alone gives the positions of patches; a table gives those of the pixels in a patch.

    Raises: SpecError if the encoding reserves too many channels.
    """

    encoding: Composition
    no_decay = ("pixel_pos",)
    truncated = ("cls_token", "pixel_pos")

    def __init__(self, model: TNT, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        composition = position(encoding, model.shape(size))
        arguments = timm_arguments(model, size, outputs, "num_heads")
        timm_tnt.TNT.__init__(self, img_size=size[1:], num_heads_outer=model.num_heads, **arguments)
        del self.patch_pos
        content = model.embed_dim - composition.reserved.tokens
        self.proj = nn.Linear(model.pixels * model.inner_dim, content)
        self.norm2_proj = nn.LayerNorm(content)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, content))
        self.encoding = composition

    def features(self, images: Tensor) -> Tokens:
        """Returns the class token and the patches after the last norm. Shapes: to (B, 1 + P, D)."""
        pixels = residual(self.pixel_embed(images, self.pixel_pos))
        x = residual(self.norm2_proj(self.proj(self.norm1_proj(pixels.reshape(images.shape[0], self.num_patches, -1)))))
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
        rows, columns = self.pixel_embed.grid_size
        t = self.encoding.tokens(Tokens(x, Grid(rows, columns, 1)), 0)
        x = t.x
        for block in self.blocks:
            pixels, x = block(pixels, x)
        return Tokens(self.norm(x), t.grid)
