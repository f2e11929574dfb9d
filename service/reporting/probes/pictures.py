"""Rows of small pictures: a row a trial, each picture with a scale of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import INK, WIDTH_IN, empty_figure


@dataclass(frozen=True)
class Row:
    """The name of a row, and its pictures, each with a head; None where there is no picture."""

    name: str
    pictures: Sequence[Any]
    heads: Sequence[str]


MOST_BLOCKS = 6
"""How many blocks have a picture at most."""


def spaced(count: int) -> list[int]:
    """The blocks that are shown: all, or some that are equally far apart, the first and the last among them."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, MOST_BLOCKS))})


def pictured(name: str, rows: Sequence[Row], *words: str) -> Plot | None:
    """A figure of these rows, its caption made of these sentences; None without a row."""
    return Plot(name, sentences(words), lambda: draw_pictures(rows)) if rows else None


def draw_pictures(rows: Sequence[Row]) -> Figure:
    """The pictures, row by row; bright is high. Heads stand over a row where they differ from those of the row above.

    The name of a row stands over its first picture.
    """
    columns = max(len(row.pictures) for row in rows)
    size = min(1.15, WIDTH_IN / columns)
    fig = empty_figure((size + 0.42) * len(rows) + 0.3)
    panels = fig.subplots(len(rows), columns, squeeze=False)
    for axes in panels.ravel():
        axes.set_axis_off()
    above: Sequence[str] = ()
    for row, line in zip(rows, panels, strict=True):
        for head, picture, axes in zip(row.heads, row.pictures, line, strict=False):
            if picture is not None:
                _show(axes, picture)
            words = [row.name] * (axes is line[0]) + [head] * (list(row.heads) != list(above))
            axes.set_title("\n".join(words), fontsize=8.5, color=INK, loc="left")
        above = row.heads
    return fig


def _show(axes: Axes, picture: Any) -> None:
    """A map in the colors of all maps; a photograph, channels last, in its own, and a gray one in gray."""
    if picture.ndim == 2:
        axes.imshow(picture, cmap="cividis", interpolation="nearest")
    elif picture.shape[2] == 1:
        axes.imshow(picture[:, :, 0], cmap="gray", interpolation="nearest")
    else:
        axes.imshow(picture[:, :, :3], interpolation="nearest")
