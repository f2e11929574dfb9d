"""Figures of a search: the landscape over its paths, and the optimization history with the best so far.

A point whose seeds were all trained counts for the best so far, as it does for the best of the study; the others have
no score that could be compared. Confirmations, which have other seeds, are not in this figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from search_spaces.roles import Role
from search_spaces.study import Search
from search_spaces.words import plural
from service.analysis.format import metric_words
from service.reporting.figures import plot
from service.reporting.figures.searched import (
    Panel,
    best_sentence,
    draw_points,
    key,
    lay_axis,
    name_point,
    panels,
    ring_style,
    scored,
    status_handles,
    status_sentences,
)

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


ACROSS = 3
"""How many panels stand side by side."""
TICKS = 12
"""How many labels the width of a figure holds."""


def landscape(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of a search; None before any point has a score."""
    plan = result.edition.study.plan
    if not isinstance(plan, Search) or not scored(result):
        return None
    return plot.Plot("landscape", _caption_landscape(result, panels(plan.space)), lambda: _draw_landscape(result, plan))


def _draw_landscape(result: StudyResult, plan: Search) -> Figure:
    searched = panels(plan.space)
    across = min(len(searched), ACROSS)
    fig, axes = plot.panel_grid(len(searched), across, 2.7 if len(searched) <= across else 2.2)
    ticks = TICKS // across
    for place, (panel, ax) in enumerate(zip(searched, axes, strict=True)):
        lay_axis(ax, panel, plan.space, result.edition.study.base, max(ticks, 2))
        ax.set_xlabel(panel.label(result.rows), fontsize=8)
        plot.chance_line(ax, result.edition.study.base.data.chance("val"), named=place == across - 1)
        _points_landscape(ax, panel, result)
        if place % across == 0:
            ax.set_ylabel(metric_words(result.edition.study.score.metric))
    axes[0].margins(y=0.12)
    _name_best(axes, searched, result)
    key(fig, [*status_handles(scored(result)), *_rings(result)])
    return fig


def _points_landscape(axes: Axes, panel: Panel, result: StudyResult) -> None:
    palette = plot.Palette.of(result)
    draw_points(axes, result, panel.value)
    for row in result.confirmed:
        value = panel.value(row)
        if value is not None and row.validation.mean is not None:
            axes.plot([value], [row.validation.mean], **ring_style(palette[row].color, strong=row in result.winners))


def _name_best(axes: list[Axes], searched: list[Panel], result: StudyResult) -> None:
    """Draws the best point's number, once: in the first panel, away from the point's own dot.

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
    """Returns an entry of the key for each confirmed point."""
    palette = plot.Palette.of(result)
    return [
        Line2D([], [], **ring_style(palette[row].color, strong=row in result.winners),
               label=f"#{row.trial.number} on fresh seeds")
        for row in result.confirmed
        if row.validation.mean is not None
    ]  # fmt: skip


def _caption_landscape(result: StudyResult, searched: list[Panel]) -> str:
    rows = scored(result)
    several = any(len(row.validation.values) > 1 for row in rows)
    each = "each searched path" if len(searched) > 1 else searched[0].path
    some = any(panel.given for panel in searched)
    return plot.sentences((
        f"The {metric_words(result.edition.study.score.metric)} of {plural(len(rows), 'point')} over {each}; "
        "the axis is the whole domain.",
        "A dot is the mean over a point's seeds, with a line from the lowest seed to the highest." if several else "",
        *status_sentences(rows),
        "Rings are points on fresh seeds, in the color of the point." if result.confirmed else "",
        best_sentence(result, result.confirmed),
        "A panel shows the points for which its path was open." if some else "",
    ))  # fmt: skip


FEWEST_TRIED = 2
"""One point has no history."""
DASHES = (0, (4, 2))
FAILED: dict[str, Any] = {"linestyle": "", "marker": "|", "markersize": 8, "color": plot.MUTED, "markeredgewidth": 1.4}
"""The mark of a point without a score, on the axis."""


def optimization_history(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of a search; None before two points have a score."""
    if not isinstance(result.edition.study.plan, Search) or len(scored(result)) < FEWEST_TRIED:
        return None
    return plot.Plot("history", _caption(result), lambda: _draw(result))


def best_so_far(result: StudyResult, role: Role = "trial") -> dict[int, float]:
    """Returns, by a point's number, the highest mean of the points up to it that have all their seeds.

    It begins with the first such point and ends with the last point that has a score.
    """
    highest: dict[int, float] = {}
    best: float | None = None
    for row in sorted(result.of(role), key=lambda row: row.trial.number):
        mean = row.validation.mean
        if row.answer.status == "completed" and mean is not None:
            best = mean if best is None else max(best, mean)
        if best is not None and mean is not None:
            highest[row.trial.number] = best
    return highest


def without_score(result: StudyResult) -> list[TrialResult]:
    """Returns the points that failed before any of their seeds had a score."""
    return [row for row in result.of("trial") if row.answer.status == "incomplete" and row.validation.mean is None]


def _draw(result: StudyResult) -> Figure:
    height = 2.8
    chance = result.edition.study.base.data.chance("val")
    fig, axes = plot.one_panel(height)
    plot.chance_line(axes, chance, named=False)
    _points_optimization_history(axes, result)
    labels = []
    for name, line, color, dash in (
        ("random points", best_so_far(result, "rival"), plot.MUTED, DASHES),
        ("search", best_so_far(result), plot.INK, "-"),
    ):
        if line:
            _line(axes, line, color, dash)
            labels.append(plot.Label(name, [*line.values()][-1], color))
    axes.margins(y=0.12)
    axes.set_xlabel("number of the point, in the order of proposal")
    axes.set_ylabel(metric_words(result.edition.study.score.metric))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=9))
    plot.label_ends(axes, [*(labels if best_so_far(result, "rival") else []), plot.chance_label(chance)], height - 0.7)
    handles = [Line2D([], [], **FAILED, label="failed")] if without_score(result) else []
    handles += [Line2D([], [], color=plot.INK, linewidth=1.4, label="best so far")] if best_so_far(result) else []
    key(fig, [*status_handles(scored(result)), *handles])
    return fig


def _line(axes: Axes, line: dict[int, float], color: str, dash: Any) -> None:
    """Draws a step at each point that is better than all before it, half a place longer to show the last one."""
    places, means = [*line, max(line) + 0.5], [*line.values(), [*line.values()][-1]]
    axes.plot(places, means, drawstyle="steps-post", color=color, linestyle=dash, linewidth=1.4, zorder=1.8)


def _points_optimization_history(axes: Axes, result: StudyResult) -> None:
    draw_points(axes, result, lambda row: row.trial.number)
    failed = [row.trial.number for row in without_score(result)]
    if failed:
        axes.plot(failed, [0] * len(failed), transform=axes.get_xaxis_transform(), clip_on=False, **FAILED)
    for row in scored(result):
        if row.trial.number in {winner.trial.number for winner in result.winners}:
            name_point(axes, row, (row.trial.number, max(row.validation.values.values())))


def _caption(result: StudyResult) -> str:
    rows = scored(result)
    several = any(len(row.validation.values) > 1 for row in rows)
    rivals = best_so_far(result, "rival")
    return plot.sentences((
        f"The {metric_words(result.edition.study.score.metric)} of {plural(len(rows), 'point')} in the order in which "
        "they were proposed.",
        "A dot is the mean over a point's seeds, with a line from the lowest seed to the highest." if several else "",
        *status_sentences(rows),
        "An upright mark failed without a score." if without_score(result) else "",
        "The line is the highest mean so far of points with all their seeds." if best_so_far(result) else "",
        f"The dashed line is that of the {len(result.of('rival'))} random points, which have seeds of their own."
        if rivals else "",
        best_sentence(result, []),
    ))  # fmt: skip
