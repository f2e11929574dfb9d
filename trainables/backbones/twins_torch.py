"""timm's Twins-PCPVT with an encoding in each of its stages, beside its own PEG or instead of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from timm.models import twins as timm_twins
from torch import Tensor, nn

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import Host, positions, pyramid_init, residual, timm_arguments, trunc_normal
from trainables.backbones.twins import Twins
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Grid, Tokens, full_precision


class PositionedTwins(Host, timm_twins.Twins):  # type: ignore[misc]
    """A Twins-PCPVT with an `encoding` for each stage; its own PEG stays unless the spec has `peg=False`."""

    encoding: Any  # a list of compositions, one a stage
    no_decay = ("pos_block.",)

    def __init__(self, model: Twins, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        stages = positions(encoding, model.shapes(size))
        timm_twins.Twins.__init__(self, img_size=size[1:], **timm_arguments(model, size, outputs, "peg", "pool"))
        if not model.peg:
            self.pos_block = nn.ModuleList()
        if model.pool == "token":
            self.cls_token = nn.Parameter(torch.zeros(1, 1, model.embed_dims[-1]))
        self.prefixes = [shape.prefix for shape in model.shapes(size)]
        self.encoding = stages

    def features(self, images: Tensor) -> Tokens:
        """Returns the tokens of the last stage after the norm. Shapes: to (B, N, D)."""
        x = images
        for stage, (embed, blocks) in enumerate(zip(self.patch_embeds, self.blocks, strict=True)):
            tokens, side = embed(x)
            if self.prefixes[stage]:
                tokens = torch.cat([self.cls_token.expand(tokens.shape[0], -1, -1), tokens], dim=1)
            t = Tokens(residual(tokens), Grid(side[0], side[1], self.prefixes[stage]))
            for number, block in enumerate(blocks):
                t = self.encoding[stage].tokens(t, number)
                t = replace(t, x=block(residual(t.x), side))
                if number == 0 and self.pos_block:
                    with full_precision(t.x):  # it adds the tokens in its own precision
                        t = replace(t, x=self.pos_block[stage](t.x, side))
            x = t.x[:, t.grid.prefix :].reshape(t.x.shape[0], *side, -1).permute(0, 3, 1, 2).contiguous()
        return replace(t, x=self.norm(t.x))

    def answers(self, t: Tokens) -> tuple[Tensor, ...]:
        """Returns the output of the class token where there is one, else of the mean of all patches."""
        return super().answers(replace(t, x=t.x[:, : t.grid.prefix or None]))

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Initializes the backbone's parameters as timm does, and the class token as PVT does."""
        if name == "cls_token":
            trunc_normal(value, stream)
        else:
            pyramid_init(self, name, value, stream)
