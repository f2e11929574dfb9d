"""Figures of a search: the landscape over its paths, and the optimization history with the best so far.

A point whose seeds were all trained counts for the best so far, as it does for the best of the study; the others have
no score that could be compared. Confirmations, which have other seeds, are not in this figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from matplotlib.tri import LinearTriInterpolator, Triangulation, UniformTriRefiner

from search_spaces.roles import Role
from search_spaces.space import Above, Integer, Real
from search_spaces.study import Search
from search_spaces.words import listed, plural
from service.analysis.format import metric_words, number
from service.reporting.figures import plot
from service.reporting.figures.searched import (
    Panel,
    best_sentence,
    draw_points,
    ends,
    is_log,
    key,
    lay_axis,
    name_point,
    panels,
    point_style,
    ring_style,
    scored,
    shares,
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
    key(fig, [*status_handles(scored(result)), *_rings(result)], 5)
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


FEWEST = 4
"""How many points the figure needs."""
FEWEST_BETWEEN = 10
"""How many points contours need."""
LEVELS = 5
FAINTEST, STRONGEST = 0.06, 0.62
"""About how many steps the shades have, and how opaque the ends are."""
SUBDIVISIONS = 3
"""Each triangle is divided so often before it is drawn, so that contours are right on logarithmic axes."""

Pair = tuple[Panel, Panel]


@dataclass(frozen=True)
class Surface:
    """The linear interpolation between points: corners and triangles, in shares of the axes from 0 to 1."""

    triangles: Triangulation
    scores: Any

    def at(self, x: Any, y: Any) -> Any:
        """Returns the score at shares of the axes; masked outside of the points."""
        return LinearTriInterpolator(self.triangles, self.scores)(x, y)


def contour(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of a search over two paths of numbers or more; None if there are fewer, or few points."""
    pair = chosen_pair(result)
    if pair is None or len(_rows(result, pair)) < FEWEST or not _whole(_rows(result, pair)):
        return None
    return plot.Plot("contour", _caption_contour(result, pair), lambda: _draw_contour(result, pair))


def chosen_pair(result: StudyResult) -> Pair | None:
    """Returns the two paths of numbers, or the two of several that matter most; None if it is not known which do."""
    numeric = _numeric(result)
    if len(numeric) > 2:
        known = shares(result)
        numeric = sorted((panel for panel in numeric if panel in known), key=lambda panel: -known[panel])[:2]
    return (numeric[0], numeric[1]) if len(numeric) == 2 else None


def _numeric(result: StudyResult) -> list[Panel]:
    """Returns the paths of numbers that every point has."""
    plan = result.edition.study.plan
    searched = panels(plan.space) if isinstance(plan, Search) else []
    return [panel for panel in searched if panel.given is None and isinstance(panel.domain, Real | Integer | Above)]


def _rows(result: StudyResult, pair: Pair) -> list[TrialResult]:
    return [row for row in scored(result) if all(panel.value(row) is not None for panel in pair)]


def _whole(rows: Sequence[TrialResult]) -> list[TrialResult]:
    """Returns the points whose scores can be compared: those that have all seeds, and diverged ones, at chance."""
    return [row for row in rows if row.answer.status in ("completed", "diverged")]


def shares_of_axis(values: Sequence[float], panel: Panel, result: StudyResult) -> Any:
    """Returns where values lie between the ends of a domain, from 0 to 1, on its own scale."""
    low, high, log = _axis(panel, result)
    change = math.log if log else float
    return np.array([(change(value) - change(low)) / (change(high) - change(low)) for value in values])


def _values_of_axis(places: Any, panel: Panel, result: StudyResult) -> Any:
    """Returns the inverse of `shares_of_axis`."""
    low, high, log = _axis(panel, result)
    return low * (high / low) ** places if log else low + (high - low) * places


def _axis(panel: Panel, result: StudyResult) -> tuple[float, float, bool]:
    plan = result.edition.study.plan
    assert isinstance(plan, Search)
    low, high = ends(panel.domain, panel, plan.space, result.edition.study.base)
    return float(low), float(high), is_log(panel.domain)


def surface(result: StudyResult, pair: Pair) -> Surface | None:
    """Returns the scores between the points; None if other paths are searched, too, or the points span no surface."""
    plan, rows = result.edition.study.plan, _whole(_rows(result, pair))
    if not isinstance(plan, Search) or len(panels(plan.space)) > 2 or len(rows) < FEWEST_BETWEEN:
        return None
    places = [shares_of_axis([panel.value(row) or 0.0 for row in rows], panel, result) for panel in pair]
    if np.linalg.matrix_rank(np.stack(places) - np.mean(places, axis=1, keepdims=True), tol=1e-6) < 2:
        return None
    return Surface(Triangulation(*places), np.array([row.validation.mean for row in rows]))


def levels(result: StudyResult, pair: Pair) -> list[float]:
    """Returns round scores between which the shades change; the first is below all points, the last above them."""
    means = [row.validation.mean or 0.0 for row in _whole(_rows(result, pair))]
    low, high = min(means), max(means)
    return [float(tick) for tick in MaxNLocator(nbins=LEVELS).tick_values(low, high if high > low else low + 1e-3)]


def _shades(count: int) -> list[tuple[float, float, float, float]]:
    return [to_rgba(plot.INK, float(alpha)) for alpha in np.linspace(FAINTEST, STRONGEST, count)]


def _draw_contour(result: StudyResult, pair: Pair) -> Figure:
    plan, base = result.edition.study.plan, result.edition.study.base
    assert isinstance(plan, Search)
    fig, axes = plot.one_panel(4.2)
    x, y = pair
    lay_axis(axes, x, plan.space, base, 10)
    lay_axis(axes, y, plan.space, base, 8, upright=True)
    axes.set(xlabel=x.label(result.rows), ylabel=y.label(result.rows))
    steps = levels(result, pair)
    shades = _shades(len(steps) - 1)
    field = surface(result, pair)
    if field is None:
        axes.grid(axis="both", color=plot.FAINT, linewidth=0.6)
    else:
        axes.grid(visible=False)
        _draw_surface(axes, field, result, pair, steps)
    _draw_points(axes, result, pair, steps)
    keys = [Patch(facecolor=shade, label=f"{number(low)} to {number(high)}")
            for shade, low, high in zip(shades, steps, steps[1:], strict=False)]  # fmt: skip
    odd = [row for row in _rows(result, pair) if row.answer.status != "completed"]
    key(fig, [*keys, *status_handles(odd)], 6)
    return fig


def _draw_surface(axes: Axes, field: Surface, result: StudyResult, pair: Pair, steps: Sequence[float]) -> None:
    """Draws shades and contour lines, from triangles that are small enough to be straight on any scale."""
    fine, scores = UniformTriRefiner(field.triangles).refine_field(
        field.scores, LinearTriInterpolator(field.triangles, field.scores), SUBDIVISIONS
    )
    x, y = (_values_of_axis(at, panel, result) for at, panel in zip((fine.x, fine.y), pair, strict=True))
    drawn = Triangulation(x, y, fine.triangles)
    axes.tricontourf(drawn, scores, levels=steps, colors=_shades(len(steps) - 1), zorder=0.5)
    axes.tricontour(drawn, scores, levels=steps[1:-1], colors=plot.PAPER, linewidths=0.8, zorder=0.6)


def _draw_points(axes: Axes, result: StudyResult, pair: Pair, steps: Sequence[float]) -> None:
    """Draws the points in their trials' colors, filled with the shade of their scores where these can be compared.

    Like points are drawn together, which is faster than one by one; those with colors of their own lie above the gray.
    """
    palette = plot.Palette.of(result)
    alike: dict[tuple[str, str, Any], list[tuple[float, float]]] = {}
    for row in sorted(_rows(result, pair), key=palette.named):
        fill = shade(row.validation.mean or 0.0, steps) if row.answer.status == "completed" else None
        alike.setdefault((row.answer.status, palette[row].color, fill), []).append(_place(row, pair))
    for layer, ((status, color, fill), places) in enumerate(alike.items()):
        x, y = zip(*places, strict=True)
        above = 3 + layer / len(alike)
        style = {**point_style(status, color), "markersize": 7.5, "zorder": above}
        axes.plot(
            x, y, marker="o", markersize=10, color=plot.PAPER, linestyle="", markeredgewidth=0, zorder=above - 0.1
        )
        axes.plot(x, y, **(style | {"markerfacecolor": plot.PAPER}))
        if fill is not None:
            axes.plot(x, y, **(style | {"markerfacecolor": fill}))
    winners = {row.trial.number for row in result.winners}
    for row in (row for row in _rows(result, pair) if row.trial.number in winners):
        axes.plot(*_place(row, pair), **(ring_style(palette[row].color, strong=True) | {"markersize": 13}))
        name_point(axes, row, _place(row, pair))


def _place(row: TrialResult, pair: Pair) -> tuple[float, float]:
    return pair[0].value(row) or 0.0, pair[1].value(row) or 0.0


def shade(score: float, steps: Sequence[float]) -> tuple[float, float, float, float]:
    """Returns the shade of a score: that of the step in which it lies."""
    return _shades(len(steps) - 1)[min(max(int(np.searchsorted(steps, score, side="right")) - 1, 0), len(steps) - 2)]


def _caption_contour(result: StudyResult, pair: Pair) -> str:
    rows = _rows(result, pair)
    first, second = pair
    winners = [row for row in rows if row.trial.number in {winner.trial.number for winner in result.winners}]
    return plot.sentences((
        f"The {metric_words(result.edition.study.score.metric)} of {plural(len(rows), 'point')} over {first.path} and "
        f"{second.path}: the stronger the shade, the higher the mean over seeds.",
        _others(result, pair),
        _between(result, pair),
        *status_sentences(rows),
        best_sentence(result, result.winners if winners else []),
    ))  # fmt: skip


def _between(result: StudyResult, pair: Pair) -> str:
    """Returns what is drawn between the points."""
    if surface(result, pair) is None:
        return ""
    diverged = any(row.answer.status == "diverged" for row in _rows(result, pair))
    return f"Between the points that have all seeds{' or diverged' if diverged else ''}, it is interpolated linearly."


def _others(result: StudyResult, pair: Pair) -> str:
    """Returns why these two paths, and what their plane leaves out."""
    plan, known = result.edition.study.plan, shares(result)
    assert isinstance(plan, Search)
    others = list(dict.fromkeys(panel.path for panel in panels(plan.space) if panel not in pair))
    if not others:
        return ""
    most = ""
    if len(_numeric(result)) > 2:
        most = f"These two numbers matter most (importance {listed([f'{known[panel]:.2f}' for panel in pair])}). "
    return f"{most}Points differ in {listed(others)}, too, so nothing is drawn between them."


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
    key(fig, [*status_handles(scored(result)), *handles], 5)
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
        _named_sentence(result),
    ))  # fmt: skip


def _named_sentence(result: StudyResult) -> str:
    """Returns which numbers are written, and why."""
    names = [f"#{row.trial.number}" for row in result.winners]
    if not names:
        return ""
    return f"{names[0]} is the best." if len(names) == 1 else f"{listed(names)} tie as best."
