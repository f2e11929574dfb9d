"""Pictures of single channels: one of each shape, and what the first block makes of a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from service.reporting.figures.dots import name
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import INK, Sheet
from service.reporting.probes.found import arrays, found

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

Row = tuple[str, list[Any]]
"""A trial's name and its pictures; None where it has no such channel."""
SHAPES = ("chaos", "raster", "striped", "box")
PROJECTED = ("p", "q", "k", "v")


def shapes(result: StudyResult) -> Plot | None:
    """A row a trial, of its first seed after training: the channel of each shape that varies most; None without any."""
    rows: list[Row] = []
    for row, kept in found(result, "channel_shapes"):
        for one in arrays(kept, "after", "maps")[:1]:
            maps, kinds = np.asarray(one.arrays["maps"], dtype=float), np.asarray(one.arrays["kinds"])
            spread = maps.var(axis=(0, 1))
            best = [np.where(kinds == kind, spread, -1.0) for kind in SHAPES]
            rows.append((name(result, row), [maps[:, :, some.argmax()] if some.max() >= 0 else None for some in best]))
    caption = sentences((
        "Channels of the codes after training, for the first seed: of each shape the one that varies most over the "
        "patches.",
        "Bright is high; each picture has its own scale. Where there is no picture, no channel has that shape.",
    ))  # fmt: skip
    return Plot("channel_shapes", caption, lambda sheet: _draw(rows, SHAPES, sheet)) if rows else None


def projected(result: StudyResult) -> Plot | None:
    """A row a trial, of its first seed after training: the channel of the values that has most of edges."""
    rows: list[Row] = []
    for row, kept in found(result, "projections"):
        for one in arrays(kept, "after", "maps")[:1]:
            maps = np.asarray(one.arrays["maps"], dtype=float)
            channel = int(one.arrays["shares"][PROJECTED.index("v")].argmax())
            rows.append((name(result, row), [*maps[:, :, :, channel]]))
    caption = sentences((
        "One channel of the code (p) and of what the first block makes of it for queries, keys and values, after "
        "training, for the first seed.",
        "It is the channel of the values of which edges explain most. Bright is high; each picture has its own scale.",
    ))  # fmt: skip
    return Plot("projections", caption, lambda sheet: _draw(rows, PROJECTED, sheet)) if rows else None


def _draw(rows: list[Row], heads: tuple[str, ...], sheet: Sheet) -> Figure:
    size = 0.75 if sheet.narrow else 1.15
    fig = sheet.figure((size + 0.42) * len(rows) + 0.3)
    panels = fig.subplots(len(rows), len(heads), squeeze=False)
    for number, ((label, pictures), line) in enumerate(zip(rows, panels, strict=True)):
        for head, picture, axes in zip(heads, pictures, line, strict=True):
            axes.set_axis_off()
            if picture is not None:
                axes.imshow(picture, cmap="cividis", interpolation="nearest")
            words = [label] * (axes is line[0]) + [head] * (number == 0)
            axes.set_title("\n".join(words), fontsize=7.5 if sheet.narrow else 8.5, color=INK, loc="left")
    return fig
