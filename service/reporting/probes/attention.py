"""What attention looks at: distances by block, weights between patches, and heat maps of a few images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from service.reporting.figures.dots import name
from service.reporting.figures.palette import Look, Palette
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import INK, MUTED, PAPER, panel_grid
from service.reporting.probes.found import arrays, found, of_first_seeds
from service.reporting.probes.pictures import Row, pictured, spaced
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
    return Plot("attention_distance", caption, lambda: _draw_distances(rows))


def _draw_distances(rows: list[tuple[str, Look, dict[When, Any], Any]]) -> Figure:
    columns = min(len(rows), 4)
    fig, panels = panel_grid(len(rows), columns, 1.9)
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
    for row, one in of_first_seeds(result, "attention_maps", "maps"):
        maps = np.asarray(one.arrays["maps"], dtype=float)
        blocks = spaced(len(maps))
        pictures = [maps[block].reshape(maps.shape[1], -1) for block in blocks]
        rows.append(Row(name(result, row), pictures, [f"block {block}" for block in blocks]))
    return pictured(
        "attention_weights",
        rows,
        "The weight that each patch (a row of a square) gives to each patch (a column), by block: the mean over heads "
        "and images, after training, for the first seed.",
        "Patches are numbered row by row, so a bright diagonal means that patches attend to themselves, lines beside "
        "it that they attend to neighbors. Bright is much; each square has its own scale.",
    )


def heat_maps(result: StudyResult) -> Plot | None:
    """A row a trial, of its first seed: what it looks at in a few images, which stand above; None without maps."""
    rows: list[Row] = []
    images: Any = None
    for row, one in of_first_seeds(result, "attention_maps", "heat"):
        own, heat = one.arrays["images"], np.asarray(one.arrays["heat"], dtype=float)
        if images is None or not np.array_equal(own, images):
            rows.append(Row("images", [*own], [""] * len(own)))
            images = own
        rows.append(Row(name(result, row), [*heat], [""] * len(heat)))
    return pictured(
        "attention_maps",
        rows,
        "The first validation images; below them, by trial, how much the last block attends to each patch, for the "
        "first seed after training.",
        "Bright is much; each map has its own scale.",
    )
