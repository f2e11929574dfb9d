"""The landscape of a search: the validation score of every point over each searched path."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from search_spaces.study import Search
from search_spaces.words import listed, plural
from service.analysis.format import metric_words
from service.reporting.figures.palette import Palette
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.searched import Panel, lay_axis, panels
from service.reporting.figures.style import FAINT, INK, MUTED, PAPER, POINT, Sheet, chance_line

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult

ACROSS, ACROSS_NARROW = 3, 2
"""How many panels stand side by side."""
TICKS = 12
"""How many labels the width of a wide sheet holds."""
SHAPES = {"completed": "o", "stopped": "v", "diverged": "x", "incomplete": "o", "open": "o"}
HOLLOW = ("stopped", "incomplete", "open")
WORDS = {"completed": "all seeds", "stopped": "stopped early", "incomplete": "a seed failed", "open": "under way"}
"""How a point's status looks, and what the key calls it."""


def landscape(result: StudyResult) -> Plot | None:
    """The figure of a search; None before any point has a score."""
    plan = result.edition.study.plan
    if not isinstance(plan, Search) or not _scored(result):
        return None
    return Plot("landscape", _caption(result, panels(plan.space)), lambda sheet: _draw(result, plan, sheet))


def _scored(result: StudyResult) -> list[TrialResult]:
    return [row for row in result.of("trial") if row.validation.mean is not None]


def _draw(result: StudyResult, plan: Search, sheet: Sheet) -> Figure:
    searched = panels(plan.space)
    across = min(len(searched), ACROSS_NARROW if sheet.narrow else ACROSS)
    fig, axes = sheet.panels(len(searched), across, 2.7 if len(searched) <= across else 2.2)
    ticks = round(TICKS * sheet.width_in / 6.9 / across)
    for place, (panel, ax) in enumerate(zip(searched, axes, strict=True)):
        lay_axis(ax, panel, plan.space, result.edition.study.base, max(ticks, 2))
        ax.set_xlabel(panel.label(result.rows), fontsize=8)
        chance_line(ax, result.edition.study.base.data.chance, named=place == across - 1)
        _points(ax, panel, result)
        if place % across == 0:
            ax.set_ylabel(metric_words(result.edition.study.score.metric))
    axes[0].margins(y=0.12)
    _name_best(axes, searched, result)
    _key(fig, result, 2 if sheet.narrow else 5)
    return fig


def _points(axes: Axes, panel: Panel, result: StudyResult) -> None:
    palette = Palette.of(result)
    alike: dict[tuple[str, str], list[tuple[float, list[float]]]] = {}
    for row in sorted(_scored(result), key=palette.named):
        value = panel.value(row)
        if value is not None:
            same = alike.setdefault((row.answer.status, palette[row].color), [])
            same.append((value, list(row.validation.values.values())))
    for (status, color), points in alike.items():
        _marks(axes, points, status, color)
    for row in result.confirmed:
        value = panel.value(row)
        if value is not None and row.validation.mean is not None:
            axes.plot([value], [row.validation.mean], **_ring(palette[row].color, strong=row in result.winners))


def _marks(axes: Axes, points: Sequence[tuple[float, list[float]]], status: str, color: str) -> None:
    """All points of one status and color together, which is much faster than one by one."""
    lines = [(value, min(seeds), max(seeds)) for value, seeds in points if len(seeds) > 1]
    if lines:
        axes.vlines(*zip(*lines, strict=True), color=color, linewidth=1.2, alpha=0.6)
    axes.plot([value for value, _ in points], [fmean(seeds) for _, seeds in points], **_style(status, color))


def _style(status: str, color: str) -> dict[str, Any]:
    return {"linestyle": "", "marker": SHAPES[status], "markersize": 5, "markeredgewidth": 1.2, "color": color,
            "markerfacecolor": PAPER if status in HOLLOW else color,
            "markeredgecolor": FAINT if status == "open" else color}  # fmt: skip


def _ring(color: str, *, strong: bool) -> dict[str, Any]:
    return {"linestyle": "", "marker": "o", "markersize": 10.5 if strong else 9, "markerfacecolor": "none",
            "markeredgecolor": color, "markeredgewidth": 2.2 if strong else 1.1, "zorder": 4}  # fmt: skip


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
    below = max(points) > mean
    ax.annotate(f"#{row.trial.number}", (value, mean), xytext=(0, -9 if below else 9), ha="center",
                va="top" if below else "bottom", textcoords="offset points", color=INK, fontweight="bold",
                annotation_clip=False)  # fmt: skip


def _key(fig: Figure, result: StudyResult, columns: int) -> None:
    """A legend over the panels, with only the marks that occur."""
    palette = Palette.of(result)
    seen = dict.fromkeys(row.answer.status for row in _scored(result))
    handles = [Line2D([], [], **_style(status, POINT), label=WORDS.get(status, status)) for status in seen]
    for row in result.confirmed:
        if row.validation.mean is not None:
            ring = _ring(palette[row].color, strong=row in result.winners)
            handles.append(Line2D([], [], **ring, label=f"#{row.trial.number} on fresh seeds"))
    fig.legend(handles=handles, loc="outside upper left", ncol=min(columns, len(handles)), frameon=False,
               labelcolor=MUTED, fontsize=7.5, handletextpad=0.1, columnspacing=1.2, borderaxespad=0)  # fmt: skip


def _best_sentence(result: StudyResult) -> str:
    names = listed([f"#{row.trial.number}" for row in result.winners])
    ringed = any(row in result.winners for row in result.confirmed)
    if len(result.winners) > 1:
        return f"{names} tie as best{' and have the heavy rings' if ringed else ''}."
    return f"{names} is the best{' and has the heavy ring' if ringed else ''}." if names else ""


def _caption(result: StudyResult, searched: list[Panel]) -> str:
    rows = _scored(result)
    several = any(len(row.validation.values) > 1 for row in rows)
    seen = {row.answer.status for row in rows}
    each = "each searched path" if len(searched) > 1 else searched[0].path
    some = any(panel.given for panel in searched)
    return sentences((
        f"The {metric_words(result.edition.study.score.metric)} of {plural(len(rows), 'point')} over {each}; "
        "the axis is the whole domain.",
        "A dot is the mean over a point's seeds, with a line from the lowest seed to the highest." if several else "",
        "A triangle is a point's first seed where it was stopped." if "stopped" in seen else "",
        "A cross diverged and counts at chance." if "diverged" in seen else "",
        "A hollow dot lacks a seed." if seen & {"incomplete", "open"} else "",
        "Rings are points on fresh seeds, in the color of the point." if result.confirmed else "",
        _best_sentence(result),
        "A panel shows the points for which its path was open." if some else "",
    ))  # fmt: skip
