"""Figures with a row a trial: a mean with its interval, small dots for its seeds, its name at the left."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from service.analysis.statistics import Interval
from service.reporting.figures.labels import LETTER_IN, ink
from service.reporting.figures.palette import Look
from service.reporting.figures.style import FAINT, INK, MUTED, PAPER, WIDTH_IN, one_panel

ROW_IN = 0.36
NAME_IN = 0.15
"""The height of a row; what a name above it adds. Units: inches."""
SAME = 0.012
"""Seeds closer than this share of the axis are drawn above each other."""


@dataclass(frozen=True)
class Row:
    """One row. `value`: the number in words; `strong`: the best; `hollow`: seeds are missing."""

    name: str
    mean: float
    interval: Interval | None
    look: Look
    value: str
    strong: bool = False
    hollow: bool = False


def row_place(place: int) -> float:
    """The height of a row, counted from the top."""
    return -float(place)


def draw_rows(rows: Sequence[Row], label: str) -> tuple[Figure, Axes]:
    """The rows from top to bottom; where names are long, they stand above their rows."""
    above = max(len(row.name) for row in rows) * LETTER_IN > WIDTH_IN / 2.5
    names = [textwrap.fill(row.name, int(WIDTH_IN * 0.75 / LETTER_IN)) if above else row.name for row in rows]
    lines = 1 + max(name.count("\n") for name in names)
    row_in = ROW_IN + (NAME_IN * lines if above else 0)
    fig, axes = one_panel(0.75 + row_in * len(rows))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.spines["left"].set_visible(False)
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        _draw_row(axes, row_place(place), row)
        if above:
            axes.annotate(name, (0, row_place(place)), xycoords=("axes fraction", "data"), xytext=(0, 7),
                          textcoords="offset points", color=INK, fontsize=8.5, in_layout=False, zorder=1.5,
                          bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.8},  # no line crosses a name
                          fontweight="bold" if row.strong else "normal")  # fmt: skip
    axes.set_yticks([row_place(place) for place in range(len(rows))], [""] * len(rows) if above else names,
                    color=INK, fontsize=9)  # fmt: skip
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if row.strong else "normal")
    axes.set_ylim(row_place(len(rows) - 1) - 0.55, 0.85 if above else 0.55)
    axes.set_xlabel(label)
    axes.locator_params(axis="x", nbins=8)
    return fig, axes


def _draw_row(axes: Axes, at: float, row: Row) -> None:
    color = row.look.color
    if row.interval:
        axes.plot(row.interval, [at, at], color=color, linewidth=2.2, solid_capstyle="butt", alpha=0.6)
    axes.plot([row.mean], [at], marker=row.look.marker, markersize=6.5, markerfacecolor=PAPER if row.hollow else color,
              markeredgecolor=color, zorder=4)  # fmt: skip
    axes.annotate(row.value, (1, at), xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
                  va="center", color=ink(MUTED, strong=row.strong), fontsize=8.5,
                  fontweight="bold" if row.strong else "normal", annotation_clip=False)  # fmt: skip


def draw_seeds(axes: Axes, place: int, values: Mapping[int, float], diverged: Set[int], color: str) -> None:
    """A small dot a seed below the line, a cross where it diverged; equal seeds are stacked so that all are seen."""
    low, high = axes.get_xlim()
    last, level = None, 0
    levels: dict[int, int] = {}
    for seed, value in sorted(values.items(), key=lambda item: item[1]):
        level = level + 1 if last is not None and value - last < SAME * (high - low) else 0
        last = value if level == 0 else last
        levels[seed] = level
    step = 0.27 / max(3, *levels.values()) if levels else 0.0
    heights = {seed: row_place(place) - 0.18 - step * level for seed, level in levels.items()}
    dot: dict[str, Any] = {"marker": "o", "markersize": 3, "color": color, "markeredgewidth": 0}
    cross: dict[str, Any] = {"marker": "x", "markersize": 3.6, "color": MUTED}
    for seeds, style in ((values.keys() - diverged, dot), (values.keys() & diverged, cross)):
        if seeds:
            order = sorted(seeds)
            axes.plot([values[seed] for seed in order], [heights[seed] for seed in order], linestyle="", **style)
