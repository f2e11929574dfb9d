"""Attention distance: how far the patches look, on average, in each head."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainables.encodings.encoding import Grid
from trainables.probes.inputs.arrays import Array, ProbeError, float64, places
from trainables.probes.inputs.attention import attention_of, parts_of_images
from trainables.probes.inputs.subject import Subject
from trainables.recipe.findings import Findings


def attention_distance(weights: Any, grid: Grid) -> Array:
    """Returns the mean over queries i of sum_j A_ij dist(i, j), with prefix tokens dropped and rows renormalized.

    A query that gives patches no weight at all is left out of the mean; a head in which none gives any is NaN.
    Shapes: weights (..., N, N), queries before keys, N with the grid's prefix tokens, to (...): one number a head.
    Units: patches. Raises: ProbeError for weights of another number of tokens.
    Source: Dosovitskiy et al. 2021, fig. 7; concat paper fig. 2. Differs: the class token is dropped.
    """
    numbers = float64(weights)
    if numbers.ndim < 2 or numbers.shape[-2:] != (grid.tokens, grid.tokens):
        raise ProbeError(f"weights must have the shape (..., {grid.tokens}, {grid.tokens}), got {numbers.shape}")
    if not (numbers >= 0).all():
        raise ProbeError("weights must be 0 or more, as a softmax gives them, got negative ones or NaN")
    patches = numbers[..., grid.prefix :, grid.prefix :]
    at = places(grid)
    apart = np.linalg.norm(at[:, None] - at, axis=2)
    total = patches.sum(axis=-1)
    counted = total > 0
    distances = (patches * apart).sum(axis=-1) / np.where(counted, total, 1)
    with np.errstate(invalid="ignore"):
        result: Array = (distances * counted).sum(axis=-1) / counted.sum(axis=-1)
    return result


def probe(subject: Subject) -> Findings:
    """Returns the mean over images of each block's heads; `uniform` is what attention to all patches alike would have.

    `last`: the mean over the last third of the blocks, one at least, so that models of any depth are compared.
    """
    try:
        sums: list[Array] = []
        grids: list[Grid] = []
        for images in parts_of_images(subject.recipe, subject.images):
            blocks = attention_of(subject.model, images)
            distances = [attention_distance(block.weights, block.grid).sum(axis=0) for block in blocks]
            sums = [before + now for before, now in zip(sums, distances, strict=True)] if sums else distances
            grids = [block.grid for block in blocks]
    except ProbeError as error:
        return Findings(note=str(error))
    by_head = np.stack(sums) / len(subject.images)
    uniform = np.array([attention_distance(np.ones((grid.tokens, grid.tokens)), grid) for grid in grids])
    last = by_head[-max(1, len(by_head) // 3) :]
    values = {"mean": float(by_head.mean()), "last": float(last.mean()), "uniform": float(uniform.mean())}
    values |= {f"block_{number}": float(heads.mean()) for number, heads in enumerate(by_head)}
    return Findings(values, {"by_head": by_head, "uniform": uniform})
