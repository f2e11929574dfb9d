"""The critical-difference diagram: methods on a line of mean ranks, bars over those that are not told apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from service.analysis.estimates.league import League, why_untested
from service.analysis.format import p_text
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import FAINT, INK, MUTED, SERIES, empty_figure

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

STEP, BAR = 1.0, 0.38
"""The height of a name's line, and of a bar of a group."""
LINE_IN = 0.2
"""Units: inches a name's line."""


def critical_difference(result: StudyResult) -> Plot | None:
    """The diagram; None for a study without tasks, or where no task has all its runs."""
    found = result.league
    if found is None or found.ranking is None:
        return None
    return Plot("critical_difference", _caption(found), lambda: _draw(found))


def _draw(found: League) -> Figure:
    assert found.ranking is not None
    means, groups = found.ranking.means, found.groups
    lines = math.ceil(len(means) / 2)
    depth = BAR * (len(groups) + 1) + STEP * lines
    fig = empty_figure(LINE_IN * (depth / STEP + 3.2))
    axes = fig.add_subplot()
    axes.patch.set_alpha(0)
    axes.set_axis_off()
    most = len(means)
    axes.set(xlim=(0.8, most + 0.2), ylim=(-depth - 0.4, 2.6))  # the layout makes room for the names at both sides
    _scale(axes, most)
    if found.ranking.differs:
        apart = found.ranking.critical_difference()
        axes.plot([1, 1 + apart], [1.9, 1.9], color=MUTED, linewidth=1.2, marker="|", markersize=5)
        axes.annotate(f"critical difference {apart:.2f}", (1 + apart / 2, 1.9), xytext=(0, 3), ha="center",
                      va="bottom", textcoords="offset points", color=MUTED, fontsize=7.5)  # fmt: skip
    for place, group in enumerate(groups):
        y = -BAR * (place + 1)
        axes.plot([means[group[0]] - 0.06, means[group[-1]] + 0.06], [y, y], color=INK, linewidth=2.4,
                  solid_capstyle="round")  # fmt: skip
    for place, (name, mean) in enumerate(means.items()):
        left = place < lines
        row = place if left else most - 1 - place
        y = -BAR * (len(groups) + 1) - STEP * row
        _method(axes, f"{name} {mean:.2f}", mean, y, (1 if left else most, left), strong=name == found.control)
    return fig


def _scale(axes: Axes, most: int) -> None:
    """The line of ranks, 1 at the left."""
    axes.plot([1, most], [0, 0], color=MUTED, linewidth=1)
    for rank in range(1, most + 1):
        axes.plot([rank, rank], [0, 0.22], color=MUTED, linewidth=1)
        axes.annotate(f"{rank}", (rank, 0.22), xytext=(0, 2), textcoords="offset points", ha="center", va="bottom",
                      color=MUTED, fontsize=7.5)  # fmt: skip


def _method(axes: Axes, text: str, mean: float, y: float, end: tuple[int, bool], *, strong: bool) -> None:
    """A line from a mean rank down and out to the name. `end`: where it ends, and whether that is the left side."""
    at, left = end
    ink = SERIES[0] if strong else INK
    outer = min(at, mean) - 0.1 if left else max(at, mean) + 0.1
    axes.plot([mean, mean, outer], [0, y, y], color=ink if strong else FAINT, linewidth=1, zorder=0.5)
    axes.plot([mean], [0], marker="o", markersize=3.5, color=ink)
    axes.annotate(text, (outer, y), xytext=(-3 if left else 3, 0), textcoords="offset points",
                  ha="right" if left else "left", va="center", color=ink, fontsize=8.5)  # fmt: skip


def _caption(found: League) -> str:
    assert found.ranking is not None
    ranking = found.ranking
    return sentences((
        f"The mean rank of each method over {found.over}; 1, at the left, is the best.",
        f"Friedman's test of whether all are alike: p {p_text(ranking.friedman.p)}." if ranking.testable else "",
        "A bar joins methods whose mean ranks are nearer than the critical difference of Nemenyi's test, so that they "
        "are not told apart." if ranking.differs and found.groups else "",
        "The bar joins all of them, for Friedman's test does not tell any apart."
        if ranking.testable and not ranking.differs else "",
        why_untested(found),
        f"In color: {found.control}, with which the others are compared.",
    ))  # fmt: skip
