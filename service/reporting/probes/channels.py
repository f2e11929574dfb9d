"""Pictures of single channels: of each shape, of what the first block makes of a channel, and from block to block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from service.reporting.figures.dots import name
from service.reporting.figures.plot import Plot
from service.reporting.probes.found import of_first_seeds
from service.reporting.probes.pictures import Row, pictured, spaced

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

SHAPES = ("chaos", "raster", "striped", "box")
PROJECTED = ("p", "q", "k", "v")


def shapes(result: StudyResult) -> Plot | None:
    """A row a trial, of its first seed after training: the channel of each shape that varies most; None without any."""
    rows: list[Row] = []
    for row, one in of_first_seeds(result, "channel_shapes", "maps"):
        maps, kinds = np.asarray(one.arrays["maps"], dtype=float), np.asarray(one.arrays["kinds"])
        spread = maps.var(axis=(0, 1))
        best = [np.where(kinds == kind, spread, -1.0) for kind in SHAPES]
        pictures = [maps[:, :, some.argmax()] if some.max() >= 0 else None for some in best]
        rows.append(Row(name(result, row), pictures, SHAPES))
    return pictured(
        "channel_shapes",
        rows,
        "Channels of the codes after training, for the first seed: for each shape, the one that varies most over the "
        "patches.",
        "Bright is high; each picture has its own scale. Where there is no picture, no channel has that shape.",
    )


def projected(result: StudyResult) -> Plot | None:
    """A row a trial, of its first seed after training: the channel of the values that has most of edges."""
    rows: list[Row] = []
    for row, one in of_first_seeds(result, "projections", "maps"):
        maps = np.asarray(one.arrays["maps"], dtype=float)
        channel = int(one.arrays["shares"][PROJECTED.index("v")].argmax())
        rows.append(Row(name(result, row), [*maps[:, :, :, channel]], PROJECTED))
    return pictured(
        "projections",
        rows,
        "One channel of the code (p) and of what the first block makes of it for queries, keys and values, after "
        "training, for the first seed.",
        "It is the channel that edge markers explain best in v. Bright is high; each picture has its own scale.",
    )


def by_block(result: StudyResult) -> Plot | None:
    """Two rows a trial, of its first seed after training: a channel of position and one of content, block by block."""
    rows: list[Row] = []
    for row, one in of_first_seeds(result, "block_channels", "maps"):
        maps = np.asarray(one.arrays["maps"], dtype=float)
        blocks = spaced(len(maps) - 1)
        heads = ["input", *(f"after {block}" for block in blocks)]
        for number, kind in enumerate(("position", "content")):
            pictures = [maps[state, :, :, number] for state in (0, *(block + 1 for block in blocks))]
            rows.append(Row(f"{name(result, row)}: {kind}", pictures, heads))
    return pictured(
        "block_channels",
        rows,
        "Two channels of the tokens for the first validation image, before the first block (input) and after blocks, "
        "after training, for the first seed: above the channel in which the code has the largest share of the variance "
        "before the first block, below the one in which it has the smallest.",
        "Bright is high; each picture has its own scale.",
    )
