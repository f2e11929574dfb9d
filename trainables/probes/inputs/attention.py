"""The attention weights of a trained model, block by block, with the queries of all tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trainables.backbones.backbone_torch import Host
from trainables.backbones.cait_torch import PositionedCaiT
from trainables.backbones.convit_torch import PositionedConViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings.encoding_torch import Grid, Heads, LogitsBHQN, OutputsBHQE, PositionEncoding, Tokens
from trainables.probes.inputs.arrays import ProbeError
from trainables.recipe import Recipe
from trainables.training.trained import evaluating

MOST_BYTES = 2**28
"""How many bytes the attention weights of all blocks may have that are kept together."""


class BlockAttention(NamedTuple):
    """The attention weights of a block, and its grid. Shapes: weights (B, H, N, N), queries before keys."""

    weights: Tensor
    grid: Grid


@dataclass
class BlockRecord:
    """What passes through one block of a ViT: tokens before and after the encoding, and heads before and after it."""

    content: Tokens
    tokens: Tokens
    projected: list[Heads] = field(default_factory=list)
    heads: list[Heads] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)


class Recorder(PositionEncoding):
    """Does what another encoding does, and keeps what it sees. It asks for the weights, so attention is not fused."""

    reads_weights = True

    def __init__(self, encoding: Any) -> None:
        super().__init__()
        self.encoding, self.parts = encoding, encoding.parts
        self.blocks: list[BlockRecord] = []

    def tokens(self, t: Tokens, block: int) -> Tokens:
        changed: Tokens = self.encoding.tokens(t, block)
        self.blocks.append(BlockRecord(t, changed))
        return changed

    def heads(self, h: Heads, block: int) -> Heads:
        changed: Heads = self.encoding.heads(h, block)
        self.blocks[block].projected.append(h)
        self.blocks[block].heads.append(changed)
        return changed

    def outputs(self, o: OutputsBHQE, weights: LogitsBHQN, grid: Grid, block: int) -> OutputsBHQE:
        self.blocks[block].weights.append(weights)
        return self.encoding.outputs(o, weights, grid, block) if self.encoding.reads_weights else o

    def value_terms(self, h: Heads, block: int) -> OutputsBHQE | None:
        terms: OutputsBHQE | None = self.encoding.value_terms(h, block)
        return terms


@contextmanager
def evaluated(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode and without gradients; each module has its own mode again afterwards."""
    with evaluating(model), torch.no_grad():
        yield


def recorded(model: PositionedViT, images: Tensor) -> list[BlockRecord]:
    """Returns what passes through each block of a ViT for some images. The model is as before afterwards."""
    encoding = model.encoding
    recorder = Recorder(encoding)
    with evaluated(model):
        model.encoding = recorder  # type: ignore[assignment]
        try:
            model.features(images)
        finally:
            model.encoding = encoding
    return recorder.blocks


def attention_of(model: Host, images: Tensor) -> list[BlockAttention]:
    """Returns the attention weights of each block, for normalized images as the model sees them.

    ViT, CaiT (its blocks of patches; the weights before they are mixed between heads, which makes some negative) and
    ConViT (its first blocks have no class token).
    Shapes: images (B, channels, rows, columns); weights (B, H, N, N). Raises: ProbeError for another backbone.
    """
    if isinstance(model, PositionedViT):
        return [BlockAttention(block.weights[0], block.tokens.grid) for block in recorded(model, images)]
    if isinstance(model, PositionedCaiT | PositionedConViT):
        return _hooked(model, images)
    raise ProbeError(
        f"attention is probed in vit, cait and convit, got {type(model).__name__.removeprefix('Positioned')}"
    )


def _hooked(model: Host, images: Tensor) -> list[BlockAttention]:
    """Returns the weights after the softmax, as timm's blocks pass them on: to CaiT's mix of heads, to a dropout."""
    rows, columns = model.patch_embed.grid_size
    mixed = isinstance(model, PositionedCaiT)
    blocks: list[BlockAttention] = []

    def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        (weights,) = inputs
        weights = weights.permute(0, 3, 1, 2) if mixed else weights
        blocks.append(BlockAttention(weights, Grid(rows, columns, weights.shape[-1] - rows * columns)))

    modules = [block.attn.proj_w if mixed else block.attn.attn_drop for block in model.blocks]
    hooks = [module.register_forward_pre_hook(keep) for module in modules]
    try:
        with evaluated(model):
            model.features(images)
    finally:
        for hook in hooks:
            hook.remove()
    return blocks


def parts_of_images(recipe: Recipe, images: Tensor) -> Iterator[Tensor]:
    """Returns the images in parts whose attention weights memory holds."""
    image_bytes = sum(8 * shape.widths.heads * shape.tokens**2 * shape.depth for shape in recipe.shapes)
    return iter(torch.split(images, max(1, MOST_BYTES // (4 * image_bytes))))
