"""A dot a trial: its mean on the test set with the interval, every seed beside it, and what was published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from search_spaces.roles import CONFIRMATIONS
from search_spaces.study import Published, Search
from service.analysis.format import fixed, metric_words
from service.analysis.headline import point_name
from service.analysis.statistics import FEWEST
from service.reporting.figures.palette import Palette
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.rows import Row, draw_rows, draw_seeds, row_place
from service.reporting.figures.style import INK, PAPER, chance_line

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


def dots(result: StudyResult) -> Plot | None:
    """The figure; None before any test score. A search shows its confirmation alone."""
    rows = shown(result)
    return Plot("trials", _caption(result, rows), lambda: _draw(result, rows)) if rows else None


def shown(result: StudyResult) -> list[TrialResult]:
    """The trials that have test scores: the arms, or a search's confirmed points; the highest first."""
    rows = [row for row in result.tested if row.test.mean is not None]
    return sorted(rows, key=lambda row: -(row.test.mean or 0.0))


def name(result: StudyResult, row: TrialResult) -> str:
    """How a figure calls a trial: an arm's name, or a confirmed point."""
    return row.name if row.trial.role not in CONFIRMATIONS else point_name(result, row)


def _draw(result: StudyResult, rows: Sequence[TrialResult]) -> Figure:
    palette = Palette.of(result)
    lines = [
        Row(name(result, row), row.test.mean or 0.0, row.test.interval if row.test.uniform else None,
            palette[row], fixed(row.test.mean or 0.0), strong=row in result.winners, hollow=not row.test.complete)
        for row in rows
    ]  # fmt: skip
    fig, axes = draw_rows(lines, metric_words(result.edition.study.score.test))
    for place, row in enumerate(rows):
        draw_seeds(axes, place, row.test.values, row.test.diverged, palette[row].color)
        for published in filter(result.comparable, result.published(row)):
            _published_mark(axes, place, published)
    chance = result.edition.study.base.data.chance("test")
    if min(row.test.mean or 0.0 for row in rows) < (chance + 1) / 2:
        chance_line(axes, chance, vertical=True)
    return fig


def _published_mark(axes: Axes, place: int, published: Published) -> None:
    at = row_place(place) + 0.27
    if published.spread:
        ends = published.value - published.spread, published.value + published.spread
        axes.plot(ends, [at] * 2, color=INK, linewidth=0.8)
    axes.plot([published.value], [at], marker="D", markersize=4, markerfacecolor=PAPER, markeredgecolor=INK)


def _caption(result: StudyResult, rows: Sequence[TrialResult]) -> str:
    known = [one for row in rows for one in result.published(row) if result.comparable(one)]
    fresh = " on fresh seeds" if isinstance(result.edition.study.plan, Search) else ""
    whole = [row.test.interval is not None and row.test.uniform for row in rows]
    interval = " with its 95 % interval" if any(whole) else ""
    return sentences((
        f"The {metric_words(result.edition.study.score.test)} of each trial{fresh}: the mean{interval}, and "
        "a small dot a seed.",
        f"No interval for fewer than {FEWEST} seeds." if any(row.test.interval is None for row in rows) else "",
        "No interval where some seeds do not learn." if any(not row.test.uniform for row in rows) else "",
        "A cross is a diverged seed, which counts at chance." if any(row.test.diverged for row in rows) else "",
        "A hollow dot lacks seeds." if any(not row.test.complete for row in rows) else "",
        f"Diamonds are published{', with their spread' if any(one.spread for one in known) else ''}." if known else "",
        "The best is in bold." if any(row in result.winners for row in rows) else "",
    ))  # fmt: skip
