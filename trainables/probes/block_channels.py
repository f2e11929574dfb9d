"""Channels of the tokens from block to block: in which of them position is, and how long it keeps its shape there."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from trainables.backbones.backbone_torch import Host
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings.encoding import ReservedChannels
from trainables.encodings.encoding_torch import Tokens
from trainables.probes.inputs.arrays import Array, ProbeError, float64
from trainables.probes.inputs.attention import evaluated, recorded
from trainables.probes.inputs.subject import Subject, no_code
from trainables.recipe.findings import Findings

POSITION = 4
"""One channel in so many is one of position: those in which the code has the largest share before the first block."""
LEAST = 0.1
"""The share of the code, the mean over these channels, from which on one asks how much of its shape is kept."""


def block_channels(model: Host, images: Tensor) -> Array:
    """Returns the tokens of the patches before the first block, with the codes added there, and after each block.

    Shapes: normalized images (B, channels, rows, columns), to (blocks + 1, B, P, D). Raises: ProbeError for another
    backbone, for codes that are not added to all channels, or for an encoding that changes the grid.
    Source: Gabor paper fig. 10. Differs: the paper shows two channels of one image, here are all of several.
    """
    if not isinstance(model, PositionedViT) or model.encoding.reserved != ReservedChannels():
        raise ProbeError("channels are followed in vit, where codes are added to all channels of the tokens")
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


def code_share(tokens: Any, codes: Any) -> Array:
    """Returns the share of each channel's variance that its code has, where a token is its content plus its code.

    The variance of the code over patches, by the sum of this and the variance of the content over images and patches.
    A channel in which nothing varies has 0. Shapes: tokens (B, P, D), codes (P, D), to (D,).
    """
    code = float64(codes)
    of_code, of_content = code.var(axis=0), (float64(tokens) - code).var(axis=(0, 1))
    total = of_code + of_content
    share: Array = np.where(total > 0, of_code / np.where(total > 0, total, 1.0), 0.0)
    return share


def kept(states: Array, codes: Any) -> Array:
    """Returns how much each channel keeps of its code's shape: over patches, the correlation of its mean image with it.

    0 if one of both is the same everywhere. Shapes: states (blocks, B, P, D), codes (P, D), to (blocks, D).
    """
    means, code = states.mean(axis=1), float64(codes)
    means, code = means - means.mean(axis=1, keepdims=True), code - code.mean(axis=0)
    sizes = np.sqrt((means**2).sum(axis=1) * (code**2).sum(axis=0))
    correlation: Array = np.where(sizes > 0, (means * code).sum(axis=1) / np.where(sizes > 0, sizes, 1.0), 0.0)
    return correlation


def probe(subject: Subject) -> Findings:
    """Finds `share`: of the code in the channels of position. `input`, `shallow`, `deep`: how much of its shape they
    show before the first block, and in the first and the last third of the blocks (means over them);
    `shallow_above_deep`: the difference. They are left out where the share is below LEAST: there is no shape to keep.

    `shares`: of the code, by channel; `kept`: before the first block and after each, by channel. `maps`: of the first
    image at the same places, the channel in which the code has the largest share, and that with the smallest.
    """
    if subject.codes is None:
        return no_code(subject)
    try:
        states = block_channels(subject.model, subject.images)
    except ProbeError as error:
        return Findings(note=str(error))
    shares, shapes = code_share(states[0], subject.codes), kept(states, subject.codes)
    order = np.argsort(shares, kind="stable")
    position = order[-max(1, len(order) // POSITION) :]
    values = {"share": float(shares[position].mean())}
    if values["share"] >= LEAST:
        by_block, third = shapes[:, position].mean(axis=1), max(1, (len(shapes) - 1) // 3)
        shallow, deep = float(by_block[1 : 1 + third].mean()), float(by_block[-third:].mean())
        values |= {"input": float(by_block[0]), "shallow": shallow, "deep": deep, "shallow_above_deep": shallow - deep}
    maps = states[:, 0][:, :, order[[-1, 0]]].reshape(len(states), subject.grid.rows, subject.grid.columns, 2)
    return Findings(values, {"shares": shares, "kept": shapes, "maps": maps.astype(np.float32)})
