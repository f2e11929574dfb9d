"""timm's Swin transformer with an encoding in each of its stages, beside its own tables or instead of them."""

from __future__ import annotations

from typing import Any

import torch
from timm.models.swin_transformer import SwinTransformer
from torch import Tensor

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import Host, on_map, positions
from trainables.backbones.initial_torch import timm_init, trunc_normal
from trainables.backbones.swin import Swin
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Cache, Grid, Tokens
from trainables.encodings.resample_torch import resampled_offsets

TABLE = "relative_position_bias_table"


class PositionedSwin(Host, SwinTransformer):  # type: ignore[misc]
    """A Swin with an `encoding` for each stage; its tables stay unless the spec has `relative_bias=False`."""

    encoding: Any  # a list of compositions, one a stage
    no_decay = (TABLE,)

    def __init__(self, model: Swin, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        stages = positions(encoding, model.shapes(size))
        SwinTransformer.__init__(
            self,
            img_size=size[1:],
            patch_size=model.patch_size,
            in_chans=size[0],
            num_classes=outputs,
            embed_dim=model.embed_dim,
            depths=model.depths,
            num_heads=model.num_heads,
            window_size=model.window_size,
            mlp_ratio=model.mlp_ratio,
            drop_path_rate=0.0,
        )
        if not model.relative_bias:
            self._forget_offsets()
        self.encoding = stages

    def _forget_offsets(self) -> None:
        """Replaces all tables of offsets by zeros that are not trained."""
        for stage in self.layers:
            for block in stage.blocks:
                zeros = torch.zeros_like(getattr(block.attn, TABLE))
                delattr(block.attn, TABLE)
                block.attn.register_buffer(TABLE, zeros, persistent=False)

    def resampled(self, name: str, value: Tensor, other: Host) -> Tensor:
        """Returns a table of offsets for the other's windows, which are smaller where its grid is."""
        if not name.endswith(TABLE):
            return value
        return resampled_offsets(value.T, _window(self, name), _window(other, name)).T

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
        """Returns the head's output for the mean of the patches."""
        return (self.head(t.x.reshape(t.x.shape[0], t.grid.rows, t.grid.columns, -1)),)

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Initializes the backbone's parameters as timm does."""
        if name.endswith(TABLE):
            trunc_normal(value, stream)
        else:
            timm_init(self, name, value, stream)


def _window(host: Host, table: str) -> Grid:
    """Returns the window that a table of offsets is for."""
    attention: Any = host.get_submodule(table.rpartition(".")[0])
    rows, columns = attention.window_size
    return Grid(rows, columns)
