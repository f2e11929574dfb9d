"""timm's PVT v2 with an encoding in each of its stages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from timm.models.pvt_v2 import PyramidVisionTransformerV2
from torch import Tensor

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import Host, positions, pyramid_init, residual, timm_arguments
from trainables.backbones.pvt_v2 import PVTv2
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Grid, Tokens


class PositionedPVTv2(Host, PyramidVisionTransformerV2):  # type: ignore[misc]
    """A PVT v2 with an `encoding` for each stage; the zero padding of its convolutions shows the border as well."""

    encoding: Any  # a list of compositions, one a stage

    def __init__(self, model: PVTv2, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        stages = positions(encoding, model.shapes(size))
        PyramidVisionTransformerV2.__init__(self, **timm_arguments(model, size, outputs))
        self.encoding = stages

    def features(self, images: Tensor) -> Tokens:
        """Returns the patches of the last stage after its norm. Shapes: to (B, P, D)."""
        x = self.patch_embed(images)
        for stage, encoding in zip(self.stages, self.encoding, strict=True):
            if stage.downsample is not None:
                x = stage.downsample(x.permute(0, 3, 1, 2).contiguous())
            side = (x.shape[1], x.shape[2])
            t = Tokens(residual(x).flatten(1, 2), Grid(*side))
            for number, block in enumerate(stage.blocks):
                t = encoding.tokens(t, number)
                t = replace(t, x=block(residual(t.x), side))
            t = replace(t, x=stage.norm(t.x))
            x = t.x.reshape(t.x.shape[0], *side, -1)
        return t

    def answers(self, t: Tokens) -> tuple[Tensor, ...]:
        image = t.x.reshape(t.x.shape[0], t.grid.rows, t.grid.columns, -1)
        return (self.forward_head(image.permute(0, 3, 1, 2).contiguous()),)

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        pyramid_init(self, name, value, stream)
