"""Similarity maps: the cosine similarity of each position's code with all others, as pictures of the grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainables.encodings.encoding import Grid
from trainables.probes.inputs.arrays import Array, codes_on, places
from trainables.probes.inputs.subject import Subject, no_code
from trainables.recipe.findings import Findings


def similarity(codes: Any, grid: Grid) -> Array:
    """Returns the cosine similarity of position t with the position in row r and column c. Shapes: (P, D) to (P, R, C).

    A code of zeros has the similarity 0 with every code.
    Source: thesis fig. 5; Gabor paper fig. 1. Differs: nothing.
    """
    numbers = codes_on(codes, grid)
    lengths = np.linalg.norm(numbers, axis=1, keepdims=True)
    unit = numbers / np.where(lengths > 0, lengths, 1)
    return (unit @ unit.T).reshape(grid.patches, grid.rows, grid.columns)


def probe(subject: Subject) -> Findings:
    """Returns the maps; `neighbors` is the mean over pairs at distance 1, `others` that over pairs further apart."""
    if subject.codes is None:
        return no_code(subject)
    maps, grid = similarity(subject.codes, subject.grid), subject.grid
    at = places(grid)
    apart = np.linalg.norm(at[:, None] - at, axis=2)
    flat = maps.reshape(grid.patches, grid.patches)
    pairs = {"neighbors": apart == 1, "others": apart > 1}
    values = {name: float(flat[mask].mean()) for name, mask in pairs.items() if mask.any()}
    return Findings(values, {"maps": maps.astype(np.float32)})
