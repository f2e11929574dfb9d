"""The look of every figure: quiet axes, colors that color-blind readers distinguish, SVG that a page can recolor."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

INK, MUTED, FAINT, PAPER = "#1d232b", "#68707b", "#dadee3", "#fefefe"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b5568d", "#56a4d9", "#c98a00", "#7a6a55", "#5b5bb0")
"""Okabe and Ito's colors, the light ones darkened for thin lines; then two of ours."""
ACCENT = SERIES[1]
VARIABLES = {INK: "ink", MUTED: "muted", FAINT: "faint", PAPER: "paper"} | {
    color: f"series-{number}" for number, color in enumerate(SERIES)
}
"""By color: the CSS variable that replaces it in a page."""
WIDTH_IN = 6.9
STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "text.parse_math": False,
}


def figure(height_in: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure with one panel a column, axes quiet."""
    fig = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    fig.patch.set_alpha(0)
    panels = [fig.add_subplot(1, columns, column + 1) for column in range(columns)]
    for axes in panels:
        quiet(axes)
    return fig, panels


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


def apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Places as near as can be to those wanted, in the same order, at least `gap` apart."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    clusters: list[list[int]] = []
    for index in order:
        clusters.append([index])
        while len(clusters) > 1 and _start(clusters[-1], wanted, gap) < _end(clusters[-2], wanted, gap) + gap:
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    places = [0.0] * len(wanted)
    for cluster in clusters:
        for position, index in enumerate(cluster):
            places[index] = _start(cluster, wanted, gap) + position * gap
    return places


def _start(cluster: list[int], wanted: Sequence[float], gap: float) -> float:
    return sum(wanted[index] for index in cluster) / len(cluster) - gap * (len(cluster) - 1) / 2


def _end(cluster: list[int], wanted: Sequence[float], gap: float) -> float:
    return _start(cluster, wanted, gap) + gap * (len(cluster) - 1)


def to_svg(fig: Figure, name: str) -> str:
    """The figure as an SVG file's text; equal figures become equal texts."""
    buffer = io.StringIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        FigureCanvasSVG(fig).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def inline(svg: str, label: str) -> str:
    """An SVG for use inside a page: no prologue, our colors as CSS variables, a name for those who cannot see it."""
    text = svg[svg.index("<svg") :]
    for color, variable in VARIABLES.items():
        text = re.sub(f"{color}\\b", f"var(--{variable})", text, flags=re.IGNORECASE)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(
        r'\sid="(?:figure|axes|patch|text|line2d|matplotlib|xtick|ytick|legend|PathCollection)[^"]*"', "", text
    )
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
