"""Rows of small pictures: a row a trial, each picture with a scale of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from service.reporting.figures.style import INK, Sheet

Row = tuple[str, list[Any]]
"""The name of a row and its pictures; None where there is none."""
MOST_BLOCKS = 6
"""How many blocks have a picture at most."""


def spaced(count: int) -> list[int]:
    """The blocks that are shown: all, or some that are equally far apart, the first and the last among them."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, MOST_BLOCKS))})


def draw_pictures(rows: Sequence[Row], heads: Sequence[str], sheet: Sheet) -> Figure:
    """The pictures below their heads; bright is high. A name stands over the first picture of its row."""
    size = min(0.75 if sheet.narrow else 1.15, sheet.width_in / len(heads))
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
