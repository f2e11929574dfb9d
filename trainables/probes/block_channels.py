"""Channels of the tokens from block to block: how much of each is position, and how long position keeps its shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from trainables.backbones.backbone_torch import Host
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings.encoding_torch import Tokens
from trainables.probes.inputs.arrays import Array, ProbeError, float64
from trainables.probes.inputs.attention import evaluated, recorded
from trainables.probes.inputs.subject import Subject
from trainables.recipe.findings import Findings

POSITION = 0.5
"""A channel is one of position where the place explains at least this share of its variance before the first block."""


def block_channels(model: Host, images: Tensor) -> Array:
    """The tokens of the patches before the first block, its encoding included, and after each block.

    Shapes: normalized images (B, channels, rows, columns), to (blocks + 1, B, P, D). Raises: ProbeError for another
    backbone, or for an encoding that changes the grid between two blocks.
    Source: Gabor paper fig. 10. Differs: the paper shows two channels of one image, here are all.
    """
    if not isinstance(model, PositionedViT):
        raise ProbeError(f"channels are followed in vit, got {type(model).__name__.removeprefix('Positioned')}")
    after: list[Tokens] = []
    hooks = [block.register_forward_hook(lambda module, inputs, output: after.append(output)) for block in model.blocks]
    try:
        with evaluated(model):
            before = recorded(model, images)[0].tokens
    finally:
        for hook in hooks:
            hook.remove()
    if any(tokens.grid != before.grid for tokens in after):
        raise ProbeError("channels are followed where all blocks have one grid")
    return np.stack([float64(tokens.x[:, before.grid.prefix :]) for tokens in (before, *after)])


def place_share(tokens: Any) -> Array:
    """The share of each channel's variance, over images and patches, that the place of the patch explains.

    1 where all images have the same map, and 1 / B at least for B images that have nothing in common, because the mean
    of few images is not 0. A channel that is the same everywhere has 0.
    Shapes: (B, P, D) to (D,). Source: ours, the eta squared of an analysis of variance. Differs: the Gabor paper gives no number.
    """
    found = float64(tokens)
    mean = found.mean(axis=0)
    by_place = ((mean - mean.mean(axis=0)) ** 2).mean(axis=0)
    total = ((found - mean.mean(axis=0)) ** 2).mean(axis=(0, 1))
    flat = total <= 1e-24 * np.maximum((found**2).mean(axis=(0, 1)), 1e-300)
    share: Array = np.where(flat, 0.0, by_place / np.where(flat, 1.0, total))
    return share


def kept(states: Array, channels: Any) -> Array:
    """The correlation of each block's mean maps with those before the first block: the mean over these channels.

    Shapes: states (blocks + 1, B, P, D), to (blocks,). A map that is the same everywhere correlates with none: 0.
    """
    maps = states.mean(axis=1)[:, :, channels]
    maps = maps - maps.mean(axis=1, keepdims=True)
    sizes = np.sqrt((maps**2).sum(axis=1))
    products = (maps[1:] * maps[:1]).sum(axis=1)
    scale = sizes[1:] * sizes[:1]
    result: Array = np.where(scale > 0, products / np.where(scale > 0, scale, 1.0), 0.0).mean(axis=1)
    return result


def probe(subject: Subject) -> Findings:
    """`input`, `last`: the mean share of place before the first block, and after the last one.

    `shallow`, `deep`: how much the channels of position keep of their shape after the first and after the last third
    of the blocks, the mean over these blocks; `shallow_above_deep`: their difference. They are left out where no
    channel is one of position. `shares`: by block and channel. `maps`: of the first image, the channel with the
    largest share of place before the first block, and the one with the smallest.
    """
    try:
        states = block_channels(subject.model, subject.images)
    except ProbeError as error:
        return Findings(note=str(error))
    shares = np.stack([place_share(one) for one in states])
    values = {"input": float(shares[0].mean()), "last": float(shares[-1].mean())}
    position = np.flatnonzero(shares[0] >= POSITION)
    if len(position):
        by_block = kept(states, position)
        third = max(1, len(by_block) // 3)
        values["shallow"], values["deep"] = float(by_block[:third].mean()), float(by_block[-third:].mean())
        values["shallow_above_deep"] = values["shallow"] - values["deep"]
    pair = [int(shares[0].argmax()), int(shares[0].argmin())]
    grid = subject.grid
    maps = states[:, 0][:, :, pair].reshape(len(states), grid.rows, grid.columns, 2)
    return Findings(values, {"shares": shares, "maps": maps.astype(np.float32)})
