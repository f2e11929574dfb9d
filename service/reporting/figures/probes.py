"""Draws the figures of what probes found in trained models about their encodings, in the order of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from service.analysis.format import MINUS
from service.analysis.study_result import StudyResult
from service.reporting.figures import plot
from service.reporting.figures.rows import name
from service.reporting.further_tables import arrays, kept_probes, of_first_seeds
from trainables.recipe.findings import When

MOST_BLOCKS = 6
"""At most so many blocks of a model have a picture."""
POSITIONS: tuple[tuple[When, str], ...]
POSITIONS = (("before", "middle"), ("after", "corner"), ("after", "edge"), ("after", "middle"))
"""The similarity maps of a row: each is from before or after training, and compares one position with all others."""
TERMS = ("content-content", "position-content", "content-position", "position-position")
"""The terms of the attention logits, in the order of the probe; the query's side is named first."""
PANEL_IN = 1.9
SHAPES = ("chaos", "raster", "striped", "box")
PROJECTED = ("p", "q", "k", "v")


@dataclass(frozen=True)
class PictureRow:
    """Is a row of pictures with a name. Each picture has a heading over it, and is None where there is no picture.

    `points` is empty for all but similarity maps. For those it has, by picture, the row and the column of the position
    with which all others are compared.
    """

    name: str
    pictures: Sequence[Any]
    headings: Sequence[str]
    points: Sequence[tuple[int, int]] = ()


def spaced(count: int) -> list[int]:
    """Returns the numbers of the blocks to show, of `count`: all, or some at equal distances, from first to last."""
    return sorted({round(block) for block in np.linspace(0, count - 1, min(count, MOST_BLOCKS))})


def pictured(name: str, rows: Sequence[PictureRow], caption: str) -> plot.Plot | None:
    """Returns a figure of these rows of pictures; None if there are no rows."""
    return plot.Plot(name, caption, lambda: draw_pictures(rows)) if rows else None


def draw_pictures(rows: Sequence[PictureRow]) -> Figure:
    """Draws the pictures row by row; bright is high. The name of a row stands over its first picture.

    Headings are drawn only where they differ from those of the row above. All maps (two dimensions) have the same
    colormap; a photograph (three dimensions, channels last) has its own colors.
    """
    columns = max(len(row.pictures) for row in rows)
    size = min(1.15, plot.WIDTH_IN / columns)
    fig = plot.empty_figure((size + 0.42) * len(rows) + 0.3)
    panels = fig.subplots(len(rows), columns, squeeze=False)
    for axes in panels.ravel():
        axes.set_axis_off()
    above: Sequence[str] = ()
    for row, line in zip(rows, panels, strict=True):
        for number, (heading, picture, axes) in enumerate(zip(row.headings, row.pictures, line, strict=False)):
            if picture is not None and row.points:
                _draw_similarity(axes, picture, row.points[number])
            elif picture is not None and picture.ndim == 2:
                axes.imshow(picture, cmap="cividis", interpolation="nearest")
            elif picture is not None:  # one channel is gray
                image = picture[:, :, :3] if picture.shape[2] > 1 else picture[:, :, 0]
                axes.imshow(image, cmap="gray", interpolation="nearest")
            titles = [row.name] * (number == 0) + [heading] * (list(row.headings) != list(above))
            axes.set_title("\n".join(titles), fontsize=8.5, color=plot.INK, loc="left")
        above = row.headings
    return fig


def _draw_similarity(axes: Axes, similarity: Any, point: tuple[int, int]) -> None:
    """Draws a map of the similarities with `point`, the row and the column of a position.

    The similarity of that position with itself is 1; the scale leaves it out, and its two ends stand below the map.
    """
    row, column = point
    others = np.delete(similarity.ravel(), row * similarity.shape[1] + column)
    low, high = float(others.min()), float(others.max())
    axes.imshow(similarity, cmap="cividis", vmin=low, vmax=high if high > low else low + 1e-9, interpolation="nearest")
    axes.plot([column], [row], marker="o", markersize=3, color=plot.PAPER, markeredgecolor=plot.INK,
              markeredgewidth=0.6)  # fmt: skip
    ends = " to ".join(f"{end:.2f}".replace("-", MINUS) for end in (low, high))
    axes.annotate(ends, (0.5, 0), xycoords="axes fraction", xytext=(0, -4), textcoords="offset points", ha="center",
                  va="top", fontsize=7, color=plot.MUTED, annotation_clip=False)  # fmt: skip


def similarity_maps(result: StudyResult) -> plot.Plot | None:
    """Draws, in one row per trial, the similarity of a few positions with all others, for the trial's first seed."""
    rows = []
    for row, kept in kept_probes(result, "similarity"):
        by_time = {when: arrays(kept, when, "maps")[:1] for when in ("before", "after")}
        if not by_time["after"]:
            continue
        _, height, width = by_time["after"][0].arrays["maps"].shape
        points = {"corner": (0, 0), "edge": (0, width // 2), "middle": (height // 2, width // 2)}
        pictures = []
        for when, position in POSITIONS:
            y, x = points[position]
            maps = [np.array(found.arrays["maps"][y * width + x], dtype=float) for found in by_time[when]]
            pictures.append(maps[0] if maps else None)
        heads = [f"{when}: {position}" for when, position in POSITIONS]
        rows.append(PictureRow(name(result, row), pictures, heads, [points[position] for _, position in POSITIONS]))
    return pictured(
        "similarity_maps",
        rows,
        "The cosine similarity of one position's code with all others, for the first seed: of the middle before "
        "training; of the upper left corner, the middle of the upper edge and the middle after training. "
        "Bright is similar; each map has its own scale, whose ends stand under it (the position itself, which has 1, "
        "is left out of them).",
    )


def attention_distances(result: StudyResult) -> plot.Plot | None:
    """Draws, in one panel per trial, the attention distance of each head by block; None if no trial has distances."""
    palette = plot.Palette.of(result)
    rows = []
    for row, kept in kept_probes(result, "attention_distance"):
        means: dict[When, Any] = {}
        for when in ("before", "after"):
            if seeds := [findings.arrays["by_head"] for findings in arrays(kept, when, "by_head")]:
                means[when] = np.mean(seeds, axis=0)
        if "after" in means:
            uniform = arrays(kept, "after", "uniform")[0].arrays["uniform"]
            rows.append((name(result, row), palette[row], means, uniform))
    caption = (
        "The attention distance by block, in patches: small dots are heads, the large one is their mean, all as means "
        "over seeds. The hollow dot is the mean before training. The dotted line is attention to all patches alike."
    )
    return plot.Plot("attention_distance", caption, lambda: _draw_distances(rows)) if rows else None


def _draw_distances(rows: list[tuple[str, plot.Look, dict[When, Any], Any]]) -> Figure:
    columns = min(len(rows), 4)
    fig, panels = plot.panel_grid(len(rows), columns, 1.9)
    for number, ((label, look, means, uniform), axes) in enumerate(zip(rows, panels, strict=True)):
        blocks = np.arange(len(uniform))
        spread = np.concatenate([[blocks[0] - 0.4], blocks, [blocks[-1] + 0.4]])
        line = np.concatenate([uniform[:1], uniform, uniform[-1:]])
        axes.plot(spread, line, color=plot.MUTED, linewidth=0.8, linestyle=(0, (1, 2.2)))
        for block, heads in enumerate(means["after"]):
            axes.plot([block] * len(heads), heads, linestyle="", marker="o", markersize=3, color=look.color,
                      markeredgewidth=0, alpha=0.6)  # fmt: skip
        axes.plot(blocks, means["after"].mean(axis=1), linestyle="", marker=look.marker, markersize=6.5,
                  color=look.color, zorder=4)  # fmt: skip
        if "before" in means:
            axes.plot(blocks - 0.2, means["before"].mean(axis=1), linestyle="", marker="o", markersize=4.5,
                      markerfacecolor=plot.PAPER, markeredgecolor=plot.MUTED, zorder=3)  # fmt: skip
        axes.set_title(label, fontsize=8.5, color=plot.INK, loc="left")
        axes.set_xticks(blocks if len(blocks) <= 6 else blocks[:: len(blocks) // 4])
        axes.set_xlim(blocks[0] - 0.6, blocks[-1] + 0.6)
        axes.set_xlabel("block")
        if number % columns == 0:
            axes.set_ylabel("patches")
    return fig


def attention_weights(result: StudyResult) -> plot.Plot | None:
    """Draws, in one row per trial, the weights between all patches, one square per block, for the first seed."""
    rows: list[PictureRow] = []
    for row, findings in of_first_seeds(result, "attention_maps", "maps"):
        maps = np.asarray(findings.arrays["maps"], dtype=float)
        blocks = spaced(len(maps))
        pictures = [maps[block].reshape(maps.shape[1], -1) for block in blocks]
        rows.append(PictureRow(name(result, row), pictures, [f"block {block}" for block in blocks]))
    return pictured(
        "attention_weights",
        rows,
        "The weight that each patch (a row of a square) gives to each patch (a column), by block: the mean over heads "
        "and images, after training, for the first seed. "
        "Patches are numbered row by row, so a bright diagonal means that patches attend to themselves, lines beside "
        "it that they attend to neighbors. Bright is much; each square has its own scale.",
    )


def heat_maps(result: StudyResult) -> plot.Plot | None:
    """Draws a few images, and below them, in one row per trial, how much its first seed attends to each patch."""
    rows: list[PictureRow] = []
    images: Any = None
    for row, findings in of_first_seeds(result, "attention_maps", "heat"):
        photographs, heat = findings.arrays["images"], np.asarray(findings.arrays["heat"], dtype=float)
        if images is None or not np.array_equal(photographs, images):
            rows.append(PictureRow("images", [*photographs], [""] * len(photographs)))
            images = photographs
        rows.append(PictureRow(name(result, row), [*heat], [""] * len(heat)))
    return pictured(
        "attention_maps",
        rows,
        "The first validation images; below them, by trial, how much the last block attends to each patch, for the "
        "first seed after training. "
        "Bright is much; each map has its own scale.",
    )


def term_maps(result: StudyResult) -> plot.Plot | None:
    """Draws, in one row per trial, each term of the first block's attention logits, for the trained first seed."""
    rows: list[PictureRow] = []
    for row, findings in of_first_seeds(result, "logit_terms", "mean"):
        prefix = row.recipe.shapes[0].prefix
        terms = np.asarray(findings.arrays["mean"], dtype=float)[:, prefix:, prefix:]
        rows.append(PictureRow(name(result, row), [*(terms - terms.mean(axis=2, keepdims=True))], TERMS))
    return pictured(
        "logit_term_maps",
        rows,
        "Each term of the logits between all patches (a row is a query, a column a key), the mean over heads and "
        "images, after training, for the first seed, in the first block that has the code. "
        "The mean of each row is subtracted, because it changes no attention weight. Patches are numbered row by row. "
        "Bright is high; each square has its own scale.",
    )


def terms_by_block(result: StudyResult) -> plot.Plot | None:
    """Draws, in one panel per term of the logits, how much it varies over the keys by block; one line per trial."""
    palette = plot.Palette.of(result)
    lines: list[tuple[str, plot.Look, Any]] = []
    for row, kept in kept_probes(result, "logit_terms"):
        seeds = [findings.arrays["by_depth"].mean(axis=2) for findings in arrays(kept, "after", "by_depth")]
        if seeds and len(seeds[0]) > 1:
            lines.append((name(result, row), palette[row], np.mean(seeds, axis=0)))
    caption = (
        "How much each term of the logits varies over the keys, by block: its standard deviation, in logits, the mean "
        "over heads, images and seeds, after training. Codes of the tokens are taken as passing through all blocks "
        "unchanged."
    )
    return plot.Plot("logit_terms", caption, lambda: _draw_terms(lines)) if lines else None


def _draw_terms(lines: list[tuple[str, plot.Look, Any]]) -> Figure:
    columns = 4
    fig, panels = plot.panel_grid(len(TERMS), columns, PANEL_IN)
    for number, (term, axes) in enumerate(zip(TERMS, panels, strict=True)):
        for _, look, terms in lines:
            blocks = np.arange(len(terms))
            axes.plot(blocks, terms[:, number], color=look.color, linestyle=look.dash, marker=look.marker, markersize=4)
        axes.set_title(term, fontsize=8.5, color=plot.INK, loc="left")
        axes.set_xlabel("block")
        if number % columns == 0:
            axes.set_ylabel("logits")
    panels[0].set_ylim(bottom=0)
    ends = [plot.Label(label, float(terms[-1, -1]), look.color) for label, look, terms in lines]
    plot.label_ends(panels[-1], ends, PANEL_IN - 0.6)
    return fig


def shapes(result: StudyResult) -> plot.Plot | None:
    """Draws, in one row per trial, for each shape the code's channel of that shape that varies most over the patches.

    It shows the trial's first seed after training.
    """
    rows: list[PictureRow] = []
    for row, findings in of_first_seeds(result, "channel_shapes", "maps"):
        maps, kinds = np.asarray(findings.arrays["maps"], dtype=float), np.asarray(findings.arrays["kinds"])
        spread = maps.var(axis=(0, 1))
        of_shape = [np.where(kinds == kind, spread, -1.0) for kind in SHAPES]
        pictures = [maps[:, :, spreads.argmax()] if spreads.max() >= 0 else None for spreads in of_shape]
        rows.append(PictureRow(name(result, row), pictures, SHAPES))
    return pictured(
        "channel_shapes",
        rows,
        "Channels of the codes after training, for the first seed: for each shape, the one that varies most over the "
        "patches. "
        "Bright is high; each picture has its own scale. Where there is no picture, no channel has that shape.",
    )


def projected(result: StudyResult) -> plot.Plot | None:
    """Draws, in one row per trial, one channel of the code, and of the queries, keys and values made from it.

    It is the channel whose values markers of the image's edges explain best, for the first seed after training.
    """
    rows: list[PictureRow] = []
    for row, findings in of_first_seeds(result, "projections", "maps"):
        maps = np.asarray(findings.arrays["maps"], dtype=float)
        channel = int(findings.arrays["shares"][PROJECTED.index("v")].argmax())
        rows.append(PictureRow(name(result, row), [*maps[:, :, :, channel]], PROJECTED))
    return pictured(
        "projections",
        rows,
        "One channel of the code (p) and of what the first block makes of it for queries, keys and values, after "
        "training, for the first seed. "
        "It is the channel that edge markers explain best in v. Bright is high; each picture has its own scale.",
    )


def by_block(result: StudyResult) -> plot.Plot | None:
    """Draws, in two rows per trial, a channel of position and one of content by block, for the trained first seed."""
    rows: list[PictureRow] = []
    for row, findings in of_first_seeds(result, "block_channels", "maps"):
        maps = np.asarray(findings.arrays["maps"], dtype=float)
        blocks = spaced(len(maps) - 1)
        heads = ["input", *(f"after {block}" for block in blocks)]
        for number, kind in enumerate(("position", "content")):
            pictures = [maps[state, :, :, number] for state in (0, *(block + 1 for block in blocks))]
            rows.append(PictureRow(f"{name(result, row)}: {kind}", pictures, heads))
    return pictured(
        "block_channels",
        rows,
        "Two channels of the tokens for the first validation image, before the first block (input) and after blocks, "
        "after training, for the first seed: above the channel in which the code has the largest share of the variance "
        "before the first block, below the one in which it has the smallest. "
        "Bright is high; each picture has its own scale.",
    )
