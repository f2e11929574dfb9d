"""What attention looks at: distances by block, weights between patches, and heat maps of a few images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from service.reporting.figures.dots import name
from service.reporting.figures.palette import Look, Palette
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import INK, MUTED, PAPER, Sheet
from service.reporting.probes.found import arrays, found
from service.reporting.probes.pictures import Row, draw_pictures, spaced
from trainables.recipe.findings import When

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


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


def attention_weights(result: StudyResult) -> Plot | None:
    """A row a trial, of its first seed: the weights between all patches, a square a block; None without maps."""
    rows: list[Row] = []
    blocks: list[int] = []
    for row, kept in found(result, "attention_maps"):
        for one in arrays(kept, "after", "maps")[:1]:
            maps = np.asarray(one.arrays["maps"], dtype=float)
            blocks = spaced(len(maps))
            rows.append((name(result, row), [maps[block].reshape(maps.shape[1], -1) for block in blocks]))
    caption = sentences((
        "The weight that each patch (a row of a square) gives to each patch (a column), by block: the mean over heads "
        "and images, after training, for the first seed.",
        "Patches are numbered row by row, so a bright diagonal means that patches attend to themselves, lines beside "
        "it that they attend to neighbors. Bright is much; each square has its own scale.",
    ))  # fmt: skip
    heads = [f"block {block}" for block in blocks]
    return Plot("attention_weights", caption, lambda sheet: draw_pictures(rows, heads, sheet)) if rows else None


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
