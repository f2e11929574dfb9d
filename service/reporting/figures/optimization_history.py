"""The optimization history of a search: every point's validation score in the order of proposal, and the best so far.

A point whose seeds were all trained counts for the best so far, as it does for the best of the study; the others have
no score that could be compared. Confirmations, which have other seeds, are not in this figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from search_spaces.claim import Faster
from search_spaces.roles import Role
from search_spaces.study import Search
from search_spaces.words import listed, plural
from service.analysis.format import metric_words
from service.reporting.figures.labels import Label, chance_label, label_ends
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.searched import (
    draw_points,
    key,
    name_point,
    scored,
    status_handles,
    status_sentences,
)
from service.reporting.figures.style import INK, MUTED, Palette, chance_line, one_panel

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


FEWEST_TRIED = 2
"""One point has no history."""
DASHES = (0, (4, 2))
FAILED: dict[str, Any] = {"linestyle": "", "marker": "|", "markersize": 8, "color": MUTED, "markeredgewidth": 1.4}
"""The mark of a point without a score, on the axis."""


def optimization_history(result: StudyResult) -> Plot | None:
    """The figure of a search; None before two points have a score."""
    if not isinstance(result.edition.study.plan, Search) or len(scored(result)) < FEWEST_TRIED:
        return None
    return Plot("history", _caption(result), lambda: _draw(result))


def best_so_far(result: StudyResult, role: Role = "trial") -> dict[int, float]:
    """By a point's number: the highest mean of the points up to it that have all their seeds.

    It begins with the first such point and ends with the last point that has a score.
    """
    found: dict[int, float] = {}
    best: float | None = None
    for row in sorted(result.of(role), key=lambda row: row.trial.number):
        mean = row.validation.mean
        if row.answer.status == "completed" and mean is not None:
            best = mean if best is None else max(best, mean)
        if best is not None and mean is not None:
            found[row.trial.number] = best
    return found


def without_score(result: StudyResult) -> list[TrialResult]:
    """The points that failed before any of their seeds had a score."""
    return [row for row in result.of("trial") if row.answer.status == "incomplete" and row.validation.mean is None]


def _draw(result: StudyResult) -> Figure:
    height = 2.8
    chance = result.edition.study.base.data.chance("val")
    fig, axes = one_panel(height)
    chance_line(axes, chance, named=False)
    _points(axes, result)
    labels = []
    for name, line, color, dash in (
        ("random points", best_so_far(result, "rival"), MUTED, DASHES),
        ("search", best_so_far(result), INK, "-"),
    ):
        if line:
            _line(axes, line, color, dash)
            labels.append(Label(name, [*line.values()][-1], color))
    axes.margins(y=0.12)
    axes.set_xlabel("number of the point, in the order of proposal")
    axes.set_ylabel(metric_words(result.edition.study.score.metric))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=9))
    label_ends(axes, [*(labels if best_so_far(result, "rival") else []), chance_label(chance)], height - 0.7)
    key(fig, [*status_handles(scored(result)), *_failed_handle(result), *_line_handle(result)],
        5)  # fmt: skip
    return fig


def _line(axes: Axes, line: dict[int, float], color: str, dash: Any) -> None:
    """A step at each point that is better than all before it; half a place longer, so that the last step is seen."""
    places, means = [*line, max(line) + 0.5], [*line.values(), [*line.values()][-1]]
    axes.plot(places, means, drawstyle="steps-post", color=color, linestyle=dash, linewidth=1.4, zorder=1.8)


def _points(axes: Axes, result: StudyResult) -> None:
    palette = Palette.of(result)
    alike: dict[tuple[str, str], list[tuple[float, list[float]]]] = {}
    for row in sorted(scored(result), key=palette.named):
        same = alike.setdefault((row.answer.status, palette[row].color), [])
        same.append((row.trial.number, list(row.validation.values.values())))
    for (status, color), points in alike.items():
        draw_points(axes, points, status, color)
    failed = [row.trial.number for row in without_score(result)]
    if failed:
        axes.plot(failed, [0] * len(failed), transform=axes.get_xaxis_transform(), clip_on=False, **FAILED)
    for row in scored(result):
        if row.trial.number in {one.trial.number for one in result.winners}:
            name_point(axes, row, (row.trial.number, max(row.validation.values.values())))


def _failed_handle(result: StudyResult) -> Sequence[Line2D]:
    return [Line2D([], [], **FAILED, label="failed")] if without_score(result) else []


def _line_handle(result: StudyResult) -> Sequence[Line2D]:
    return [Line2D([], [], color=INK, linewidth=1.4, label="best so far")] if best_so_far(result) else []


def _caption(result: StudyResult) -> str:
    rows = scored(result)
    several = any(len(row.validation.values) > 1 for row in rows)
    rivals = best_so_far(result, "rival")
    return sentences((
        f"The {metric_words(result.edition.study.score.metric)} of {plural(len(rows), 'point')} in the order in which "
        "they were proposed.",
        "A dot is the mean over a point's seeds, with a line from the lowest seed to the highest." if several else "",
        *status_sentences(rows),
        "An upright mark failed without a score." if without_score(result) else "",
        "The line is the highest mean so far of points with all their seeds." if best_so_far(result) else "",
        f"The dashed line is that of the {len(result.of('rival'))} random points, which have seeds of their own."
        if rivals else "",
        *(one.why for one in result.claims if isinstance(one.claim, Faster) and one.measured is not None),
        _named_sentence(result),
    ))  # fmt: skip


def _named_sentence(result: StudyResult) -> str:
    """Which numbers are written, and why."""
    names = [f"#{row.trial.number}" for row in result.winners]
    if not names:
        return ""
    after = " on fresh seeds" if any(row in result.winners for row in result.confirmed) else ""
    return f"{names[0]} is the best{after}." if len(names) == 1 else f"{listed(names)} tie as best{after}."
