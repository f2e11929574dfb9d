"""Attention maps: where the patches of a model look, on average over images, and what it looks at in a few of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from trainables.encodings.encoding import Grid
from trainables.probes.inputs.arrays import Array, ProbeError, float64
from trainables.probes.inputs.attention import attention_of, parts_of_images
from trainables.probes.inputs.subject import Subject
from trainables.recipe.findings import Findings

SHOWN = 4
"""How many images have a heat map."""
SIDE = 64
"""The largest side of an image that is kept beside its heat map. Units: pixels."""


def between_patches(weights: Any, grid: Grid) -> Array:
    """Returns the weights without prefix tokens, each row renormalized. Shapes: (..., N, N) to (..., P, P)."""
    patches = float64(weights)[..., grid.prefix :, grid.prefix :]
    total = patches.sum(axis=-1, keepdims=True)
    result: Array = patches / np.where(total > 0, total, 1)
    return result


def heat(weights: Any, grid: Grid, registers: int = 0) -> Array:
    """Returns how much each patch is attended to: by the class tokens where there are some, else by all patches.

    `registers`: how many of the prefix tokens are no class tokens; they stand after those. The mean over heads, scaled
    so that all patches of an image add up to 1.
    Shapes: (B, H, N, N) to (B, R, C). Source: concat paper figs. 3 and 4. Differs: the paper does not say how its maps
    were made.
    """
    read = slice(grid.prefix - registers) if grid.prefix > registers else slice(grid.prefix, None)
    read_rows = float64(weights).mean(axis=1)[:, read, grid.prefix :].mean(axis=1)
    result: Array = (read_rows / read_rows.sum(axis=1, keepdims=True)).reshape(len(read_rows), grid.rows, grid.columns)
    return result


def area(maps: Any) -> Array:
    """Returns the share of the patches that a heat map covers: 1 if all have the same heat, 1 / P if one has it all.

    Shapes: (B, R, C) to (B,). Source: the exponential of the map's entropy, as a share of the number of patches.
    Differs: ours; the concat paper says only that an attention area is larger.
    """
    heats = float64(maps).reshape(len(maps), -1)
    entropy = -(heats * np.log(np.where(heats > 0, heats, 1))).sum(axis=1)
    result: Array = np.exp(entropy) / heats.shape[1]
    return result


def probe(subject: Subject) -> Findings:
    """Finds `maps`: what each patch attends to, by block, the mean over images and heads; `heat`: maps of the first
    images in the last block, and `images`: these images, as the model sees them. `area`: of the heat maps, over all
    images.
    """
    sums: Any = 0.0
    heats: list[Array] = []
    registers = getattr(subject.recipe.model, "registers", 0)
    try:
        for images in parts_of_images(subject.recipe, subject.images):
            blocks = attention_of(subject.model, images)
            grid = blocks[-1].grid
            if any((block.grid.rows, block.grid.columns) != (grid.rows, grid.columns) for block in blocks):
                return Findings(note="the blocks of the model have grids of different sizes")
            maps = [between_patches(block.weights, block.grid).mean(axis=1).sum(axis=0) for block in blocks]
            sums = sums + np.stack(maps) / len(subject.images)
            heats.append(heat(blocks[-1].weights, grid, registers))
    except ProbeError as error:
        return Findings(note=str(error))
    every = np.concatenate(heats)
    arrays = {
        "maps": sums.reshape(*sums.shape[:2], *every.shape[1:]).astype(np.float32),
        "heat": every[:SHOWN].astype(np.float32),
        "images": _pictures(subject.images[:SHOWN]),
    }
    return Findings({"area": float(area(every).mean())}, arrays)


def _pictures(images: Tensor) -> Any:
    """Returns bytes of at most SIDE pixels a side, channels last. Shapes: to (B, rows, columns, channels)."""
    rows, columns = (min(side, SIDE) for side in images.shape[2:])
    pixels = adaptive_avg_pool2d(images, (rows, columns)).permute(0, 2, 3, 1)
    low, high = pixels.amin(), pixels.amax()
    return ((pixels - low) / (high - low).clamp(min=1e-12) * 255).round().to(torch.uint8).cpu().numpy()
