"""timm's Swin transformer with an encoding in each of its stages, beside its own tables or instead of them."""

from __future__ import annotations

from typing import Any

import torch
from timm.models.swin_transformer import SwinTransformer
from torch import Tensor

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import Host, TimmHost, on_map, positions, timm_arguments
from trainables.backbones.swin import Swin
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Cache, Grid, Tokens
from trainables.encodings.resample_torch import resampled_offsets

TABLE = "relative_position_bias_table"


class PositionedSwin(TimmHost, SwinTransformer):  # type: ignore[misc]
    """A Swin with an `encoding` for each stage; its tables stay unless the spec has `relative_bias=False`."""

    encoding: Any  # a list of compositions, one a stage
    no_decay = truncated = (TABLE,)

    def __init__(self, model: Swin, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        stages = positions(encoding, model.shapes(size))
        arguments = timm_arguments(model, size, outputs, "relative_bias")
        SwinTransformer.__init__(self, img_size=size[1:], drop_path_rate=0.0, **arguments)
        self.encoding = stages
        attentions = [] if model.relative_bias else [block.attn for stage in self.layers for block in stage.blocks]
        for attention in attentions:  # their tables become zeros that are not trained
            zeros = torch.zeros_like(getattr(attention, TABLE))
            delattr(attention, TABLE)
            attention.register_buffer(TABLE, zeros, persistent=False)

    def resampled(self, name: str, value: Tensor, other: Host) -> Tensor:
        """Returns a table of offsets for the other's windows, which are smaller where its grid is."""
        if not name.endswith(TABLE):
            return value
        return resampled_offsets(value.T, _window_of_table(self, name), _window_of_table(other, name)).T

    def features(self, images: Tensor) -> Tokens:
        """Returns the patches of the last stage after the norm. Shapes: to (B, P, D)."""
        x = self.patch_embed(images)
        cache: Cache = {}
        for stage, encoding in zip(self.layers, self.encoding, strict=True):
            x = stage.downsample(x)
            for number, block in enumerate(stage.blocks):
                x = block(on_map(encoding, x, number, cache))
        return Tokens(self.norm(x).flatten(1, 2), Grid(x.shape[1], x.shape[2]))

    def answers(self, t: Tokens) -> tuple[Tensor, ...]:
        return (self.head(t.x.reshape(t.x.shape[0], t.grid.rows, t.grid.columns, -1)),)


def _window_of_table(host: Host, table: str) -> Grid:
    attention: Any = host.get_submodule(table.rpartition(".")[0])
    rows, columns = attention.window_size
    return Grid(rows, columns)
