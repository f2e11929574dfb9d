"""Similarity maps: the codes of a few positions, compared with those of all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from service.analysis.format import fixed
from service.reporting.figures.dots import name
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import INK, MUTED, PAPER, empty_figure
from service.reporting.probes.found import arrays, found
from trainables.recipe.findings import When

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

PLACES: tuple[tuple[When, str], ...] = (
    ("before", "middle"),
    ("after", "corner"),
    ("after", "edge"),
    ("after", "middle"),
)
"""The maps of a row: when, and the position that all others are compared with."""


def similarity_maps(result: StudyResult) -> Plot | None:
    """A row a trial, of its first seed: the similarity of a few positions with all others; None without maps."""
    rows = []
    for row, kept in found(result, "similarity"):
        by_time: dict[When, Any] = {when: arrays(kept, when, "maps")[:1] for when in ("before", "after")}
        if by_time["after"]:
            maps = [by_time[when][0].arrays["maps"] if by_time[when] else None for when, _ in PLACES]
            rows.append((name(result, row), maps))
    if not rows:
        return None
    caption = sentences((
        "The cosine similarity of one position's code with all others, for the first seed: of the middle before "
        "training; of the upper left corner, the middle of the upper edge and the middle after training.",
        "Bright is similar; each map has its own scale, whose ends stand under it (the position itself, which has 1, "
        "is left out of them).",
    ))  # fmt: skip
    return Plot("similarity_maps", caption, lambda: _draw_maps(rows))


def _draw_maps(rows: list[tuple[str, list[Any]]]) -> Figure:
    size = 1.15
    fig = empty_figure((size + 0.42) * len(rows) + 0.3)
    panels = fig.subplots(len(rows), len(PLACES), squeeze=False)
    for number, ((label, maps), line) in enumerate(zip(rows, panels, strict=True)):
        for (when, place), one, axes in zip(PLACES, maps, line, strict=True):
            axes.set_axis_off()
            if one is not None:
                _draw_map(axes, one, place)
            if number == 0 or axes is line[0]:
                words = [label] * (axes is line[0]) + [f"{when}: {place}"] * (number == 0)
                axes.set_title("\n".join(words), fontsize=8.5, color=INK, loc="left")
    return fig


def _draw_map(axes: Axes, maps: Any, place: str) -> None:
    _, rows, columns = maps.shape
    row, column = {"corner": (0, 0), "edge": (0, columns // 2), "middle": (rows // 2, columns // 2)}[place]
    one = np.array(maps[row * columns + column], dtype=float)
    others = np.delete(one.ravel(), row * columns + column)
    low, high = float(others.min()), float(others.max())
    axes.imshow(one, cmap="cividis", vmin=low, vmax=high if high > low else low + 1e-9, interpolation="nearest")
    axes.plot([column], [row], marker="o", markersize=3, color=PAPER, markeredgecolor=INK, markeredgewidth=0.6)
    ends = f"{fixed(low)[:-2]} to {fixed(high)[:-2]}"
    axes.annotate(ends, (0.5, 0), xycoords="axes fraction", xytext=(0, -4), textcoords="offset points", ha="center",
                  va="top", fontsize=7, color=MUTED, annotation_clip=False)  # fmt: skip
