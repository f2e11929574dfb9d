"""The terms of the attention logits: how much each varies by block, and what it is between any two tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from service.reporting.figures.dots import name
from service.reporting.figures.labels import Label, label_ends
from service.reporting.figures.palette import Look, Palette
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import INK, panel_grid
from service.reporting.probes.found import arrays, found, of_first_seeds
from service.reporting.probes.pictures import Row, pictured

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

TERMS = ("content-content", "position-content", "content-position", "position-position")
"""The terms in the order of the probe: the query's side first."""
PANEL_IN = 1.9


def term_maps(result: StudyResult) -> Plot | None:
    """A row a trial, of its first seed after training: each term of the first block, patches by patches."""
    rows: list[Row] = []
    for row, one in of_first_seeds(result, "logit_terms", "mean"):
        prefix = row.recipe.shapes[0].prefix
        terms = np.asarray(one.arrays["mean"], dtype=float)[:, prefix:, prefix:]
        rows.append(Row(name(result, row), [*(terms - terms.mean(axis=2, keepdims=True))], TERMS))
    return pictured(
        "logit_term_maps",
        rows,
        "Each term of the logits between all patches (a row is a query, a column a key), the mean over heads and "
        "images, after training, for the first seed, in the first block that has the code.",
        "The mean of each row is subtracted, because it changes no attention weight. Patches are numbered row by row. "
        "Bright is high; each square has its own scale.",
    )


def terms_by_block(result: StudyResult) -> Plot | None:
    """A panel a term: how much it varies over the keys, by block; a line a trial. None where one block has codes."""
    palette = Palette.of(result)
    lines: list[tuple[str, Look, Any]] = []
    for row, kept in found(result, "logit_terms"):
        seeds = [one.arrays["by_depth"].mean(axis=2) for one in arrays(kept, "after", "by_depth")]
        if seeds and len(seeds[0]) > 1:
            lines.append((name(result, row), palette[row], np.mean(seeds, axis=0)))
    if not lines:
        return None
    caption = sentences((
        "How much each term of the logits varies over the keys, by block: its standard deviation, in logits, the mean "
        "over heads, images and seeds, after training.",
        "Codes of the tokens are taken as passing through all blocks unchanged.",
    ))  # fmt: skip
    return Plot("logit_terms", caption, lambda: _draw(lines))


def _draw(lines: list[tuple[str, Look, Any]]) -> Figure:
    columns = 4
    fig, panels = panel_grid(len(TERMS), columns, PANEL_IN)
    for place, (term, axes) in enumerate(zip(TERMS, panels, strict=True)):
        for _, look, terms in lines:
            blocks = np.arange(len(terms))
            axes.plot(blocks, terms[:, place], color=look.color, linestyle=look.dash, marker=look.marker, markersize=4)
        axes.set_title(term, fontsize=8.5, color=INK, loc="left")
        axes.set_xlabel("block")
        if place % columns == 0:
            axes.set_ylabel("logits")
    panels[0].set_ylim(bottom=0)
    ends = [Label(label, float(terms[-1, -1]), look.color) for label, look, terms in lines]
    label_ends(panels[-1], ends, PANEL_IN - 0.6)
    return fig
