"""The landscape of a search: the validation score of every point over each searched path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from search_spaces.study import Search
from search_spaces.words import plural
from service.analysis.format import metric_words
from service.reporting.figures.palette import Palette
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.search.marks import (
    best_sentence,
    draw_points,
    key,
    name_point,
    ring_style,
    scored,
    status_handles,
    status_sentences,
)
from service.reporting.figures.search.searched import Panel, lay_axis, panels
from service.reporting.figures.style import chance_line, panel_grid

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

ACROSS = 3
"""How many panels stand side by side."""
TICKS = 12
"""How many labels the width of a figure holds."""


def landscape(result: StudyResult) -> Plot | None:
    """The figure of a search; None before any point has a score."""
    plan = result.edition.study.plan
    if not isinstance(plan, Search) or not scored(result):
        return None
    return Plot("landscape", _caption(result, panels(plan.space)), lambda: _draw(result, plan))


def _draw(result: StudyResult, plan: Search) -> Figure:
    searched = panels(plan.space)
    across = min(len(searched), ACROSS)
    fig, axes = panel_grid(len(searched), across, 2.7 if len(searched) <= across else 2.2)
    ticks = TICKS // across
    for place, (panel, ax) in enumerate(zip(searched, axes, strict=True)):
        lay_axis(ax, panel, plan.space, result.edition.study.base, max(ticks, 2))
        ax.set_xlabel(panel.label(result.rows), fontsize=8)
        chance_line(ax, result.edition.study.base.data.chance("val"), named=place == across - 1)
        _points(ax, panel, result)
        if place % across == 0:
            ax.set_ylabel(metric_words(result.edition.study.score.metric))
    axes[0].margins(y=0.12)
    _name_best(axes, searched, result)
    key(fig, [*status_handles(scored(result)), *_rings(result)], 5)
    return fig


def _points(axes: Axes, panel: Panel, result: StudyResult) -> None:
    palette = Palette.of(result)
    alike: dict[tuple[str, str], list[tuple[float, list[float]]]] = {}
    for row in sorted(scored(result), key=palette.named):
        value = panel.value(row)
        if value is not None:
            same = alike.setdefault((row.answer.status, palette[row].color), [])
            same.append((value, list(row.validation.values.values())))
    for (status, color), points in alike.items():
        draw_points(axes, points, status, color)
    for row in result.confirmed:
        value = panel.value(row)
        if value is not None and row.validation.mean is not None:
            axes.plot([value], [row.validation.mean], **ring_style(palette[row].color, strong=row in result.winners))


def _name_best(axes: list[Axes], searched: list[Panel], result: StudyResult) -> None:
    """The best point's number, once: in the first panel, away from the point's own dot.

    The numbers of several that tie would cover each other; the key has them.
    """
    if len(result.winners) != 1:
        return
    (row,) = result.winners
    known = ((ax, panel.value(row)) for ax, panel in zip(axes, searched, strict=True))
    ax, value = next((ax, value) for ax, value in known if value is not None)
    mean = row.validation.mean or 0.0
    points = [other.validation.mean or 0.0 for other in result.of("trial") if other.trial.number == row.trial.number]
    name_point(ax, row, (value, mean), below=max(points) > mean)


def _rings(result: StudyResult) -> list[Line2D]:
    """An entry of the key for each confirmed point."""
    palette = Palette.of(result)
    return [
        Line2D([], [], **ring_style(palette[row].color, strong=row in result.winners),
               label=f"#{row.trial.number} on fresh seeds")
        for row in result.confirmed
        if row.validation.mean is not None
    ]  # fmt: skip


def _caption(result: StudyResult, searched: list[Panel]) -> str:
    rows = scored(result)
    several = any(len(row.validation.values) > 1 for row in rows)
    each = "each searched path" if len(searched) > 1 else searched[0].path
    some = any(panel.given for panel in searched)
    return sentences((
        f"The {metric_words(result.edition.study.score.metric)} of {plural(len(rows), 'point')} over {each}; "
        "the axis is the whole domain.",
        "A dot is the mean over a point's seeds, with a line from the lowest seed to the highest." if several else "",
        *status_sentences(rows),
        "Rings are points on fresh seeds, in the color of the point." if result.confirmed else "",
        best_sentence(result, result.confirmed),
        "A panel shows the points for which its path was open." if some else "",
    ))  # fmt: skip
