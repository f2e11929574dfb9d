"""The look of every figure: quiet axes, and colors that color-blind readers distinguish."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED, FAINT, PAPER, POINT = "#1d232b", "#68707b", "#dadee3", "#fefefe", "#8b939e"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b5568d", "#56a4d9", "#c98a00", "#7a6a55", "#5b5bb0")
"""Okabe and Ito's colors, the light ones darkened for thin lines; then two of ours."""
STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "text.parse_math": False,
}


WIDTH_IN = 6.9
"""The width of every figure: a printed page's text."""


def empty_figure(height_in: float) -> Figure:
    """A figure without a panel."""
    fig = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    fig.patch.set_alpha(0)
    return fig


def one_panel(height_in: float) -> tuple[Figure, Axes]:
    """A figure with one quiet panel."""
    fig = empty_figure(height_in)
    axes = fig.add_subplot()
    quiet(axes)
    return fig, axes


def panel_grid(count: int, columns: int, panel_in: float) -> tuple[Figure, list[Axes]]:
    """A figure with quiet panels in rows, which share their y axis. Units: `panel_in` is the height of a row."""
    rows = -(-count // columns)
    fig = empty_figure(panel_in * rows + 0.35)
    grid = fig.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.remove()
    for axes in grid[:count]:
        quiet(axes)
    return fig, list(grid[:count])


def quiet(axes: Axes) -> None:
    """Removes every line that shows no number."""
    axes.patch.set_alpha(0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(which="both", colors=MUTED, length=0, pad=5)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_color(MUTED)
    axes.yaxis.label.set_color(MUTED)


def chance_line(axes: Axes, chance: float, *, vertical: bool = False, named: bool = True) -> None:
    """The score of a model that has learnt nothing, named at the line's end."""
    at: dict[str, Any]
    style: dict[str, Any] = {"color": MUTED, "linewidth": 0.8, "linestyle": (0, (1, 2.2))}
    small: dict[str, Any] = {"textcoords": "offset points", "color": MUTED, "fontsize": 7.5, "annotation_clip": False}
    if vertical:
        axes.axvline(chance, **style)
        at = {
            "xy": (chance, 1),
            "xycoords": ("data", "axes fraction"),
            "xytext": (0, 3),
            "ha": "center",
            "va": "bottom",
        }
    else:
        axes.axhline(chance, **style)
        at = {"xy": (1, chance), "xycoords": ("axes fraction", "data"), "xytext": (4, 0), "ha": "left", "va": "center"}
    if named:
        axes.annotate("chance", **at, **small)
