"""Figures of what the encodings know: similarity maps, attention distance by block, heat maps, channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from service.analysis.format import fixed
from service.reporting.figures.dots import name
from service.reporting.figures.palette import Look, Palette
from service.reporting.figures.plot import Drawn, Plot, drawn, sentences
from service.reporting.figures.style import INK, MUTED, PAPER, STYLE, Sheet
from service.reporting.probes.found import arrays, found
from service.reporting.probes.pictures import projected, shapes
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


def probe_figures(result: StudyResult) -> list[Drawn]:
    """Every figure for which the probes are kept."""
    with mpl.rc_context(STYLE):
        return [drawn(plot) for kind in KINDS if (plot := kind(result)) is not None]


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
    return Plot("similarity_maps", caption, lambda sheet: _draw_maps(rows, sheet))


def _draw_maps(rows: list[tuple[str, list[Any]]], sheet: Sheet) -> Figure:
    size = 0.75 if sheet.narrow else 1.15
    fig = sheet.figure((size + 0.42) * len(rows) + 0.3)
    panels = fig.subplots(len(rows), len(PLACES), squeeze=False)
    for number, ((label, maps), line) in enumerate(zip(rows, panels, strict=True)):
        for (when, place), one, axes in zip(PLACES, maps, line, strict=True):
            axes.set_axis_off()
            if one is not None:
                _draw_map(axes, one, place)
            if number == 0 or axes is line[0]:
                words = [label] * (axes is line[0]) + [f"{when}: {place}"] * (number == 0)
                axes.set_title("\n".join(words), fontsize=7.5 if sheet.narrow else 8.5, color=INK, loc="left")
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


def attention_distances(result: StudyResult) -> Plot | None:
    """A panel a trial: the attention distance of each head by block; None without any."""
    palette = Palette.of(result)
    rows = []
    for row, kept in found(result, "attention_distance"):
        times: dict[When, list[Any]] = {
            when: [one.arrays["by_head"] for one in arrays(kept, when, "by_head")] for when in ("before", "after")
        }
        if times["after"]:
            uniform = arrays(kept, "after", "uniform")[0].arrays["uniform"]
            means = {when: np.mean(some, axis=0) for when, some in times.items() if some}
            rows.append((name(result, row), palette[row], means, uniform))
    if not rows:
        return None
    caption = sentences((
        "The attention distance by block, in patches: small dots are heads, the large one is their mean, all as means "
        "over seeds.",
        "The hollow dot is the mean before training." if any("before" in means for _, _, means, _ in rows) else "",
        "The dotted line is attention to all patches alike.",
    ))  # fmt: skip
    return Plot("attention_distance", caption, lambda sheet: _draw_distances(rows, sheet))


def _draw_distances(rows: list[tuple[str, Look, dict[When, Any], Any]], sheet: Sheet) -> Figure:
    columns = min(len(rows), 2 if sheet.narrow else 4)
    fig, panels = sheet.panels(len(rows), columns, 1.9)
    for place, ((label, look, means, uniform), axes) in enumerate(zip(rows, panels, strict=True)):
        blocks = np.arange(len(uniform))
        spread = np.concatenate([[blocks[0] - 0.4], blocks, [blocks[-1] + 0.4]])
        line = np.concatenate([uniform[:1], uniform, uniform[-1:]])
        axes.plot(spread, line, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2.2)))
        for block, heads in enumerate(means["after"]):
            axes.plot([block] * len(heads), heads, linestyle="", marker="o", markersize=3, color=look.color,
                      markeredgewidth=0, alpha=0.6)  # fmt: skip
        axes.plot(blocks, means["after"].mean(axis=1), linestyle="", marker=look.marker, markersize=6.5,
                  color=look.color, zorder=4)  # fmt: skip
        if "before" in means:
            axes.plot(blocks - 0.2, means["before"].mean(axis=1), linestyle="", marker="o", markersize=4.5,
                      markerfacecolor=PAPER, markeredgecolor=MUTED, zorder=3)  # fmt: skip
        axes.set_title(label, fontsize=8.5, color=INK, loc="left")
        axes.set_xticks(blocks if len(blocks) <= 6 else blocks[:: len(blocks) // 4])
        axes.set_xlim(blocks[0] - 0.6, blocks[-1] + 0.6)
        axes.set_xlabel("block")
        if place % columns == 0:
            axes.set_ylabel("patches")
    return fig


def heat_maps(result: StudyResult) -> Plot | None:
    """A row a trial, of its first seed: what it looks at in a few images, which stand above; None without maps."""
    rows: list[tuple[str, Any]] = []
    pictures: Any = None
    for row, kept in found(result, "attention_maps"):
        first = arrays(kept, "after", "heat")[:1]
        if first:
            pictures = first[0].arrays["images"] if pictures is None else pictures
            rows.append((name(result, row), first[0].arrays["heat"]))
    if not rows:
        return None
    caption = sentences((
        "Above, the first validation images; below, by trial, how much the last block attends to each patch, for the "
        "first seed after training.",
        "Bright is much; each map has its own scale.",
    ))  # fmt: skip
    return Plot("attention_maps", caption, lambda sheet: _draw_heat(pictures, rows, sheet))


def _draw_heat(pictures: Any, rows: list[tuple[str, Any]], sheet: Sheet) -> Figure:
    size = 0.75 if sheet.narrow else 1.15
    fig = sheet.figure((size + 0.3) * (len(rows) + 1) + 0.3)
    panels = fig.subplots(len(rows) + 1, len(pictures), squeeze=False)
    gray = pictures.shape[3] == 1
    for axes, one in zip(panels[0], pictures, strict=True):
        axes.imshow(one[:, :, 0] if gray else one[:, :, :3], cmap="gray" if gray else None, interpolation="nearest")
    for (label, maps), line in zip(rows, panels[1:], strict=True):
        line[0].set_title(label, fontsize=7.5 if sheet.narrow else 8.5, color=INK, loc="left")
        for axes, one in zip(line, maps, strict=True):
            axes.imshow(np.array(one, dtype=float), cmap="cividis", interpolation="nearest")
    for axes in panels.ravel():
        axes.set_axis_off()
    return fig


KINDS = (similarity_maps, attention_distances, heat_maps, shapes, projected)
"""All figures, in the order of a report."""
