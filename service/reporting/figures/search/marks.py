"""How the points of a search are drawn, by their status: dots, triangles, crosses, rings, and the key to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import nan
from statistics import fmean
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from search_spaces.words import listed
from service.reporting.figures.style import FAINT, INK, MUTED, PAPER, POINT

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult

SHAPES = {"completed": "o", "stopped": "v", "diverged": "x", "incomplete": "o", "open": "o"}
HOLLOW = ("stopped", "incomplete", "open")
WORDS = {"completed": "all seeds", "stopped": "stopped early", "incomplete": "a seed failed", "open": "under way"}
"""How a point's status looks, and what the key calls it."""


def scored(result: StudyResult) -> list[TrialResult]:
    """The points of a search that have a score."""
    return [row for row in result.of("trial") if row.validation.mean is not None]


def draw_points(axes: Axes, points: Sequence[tuple[float, list[float]]], status: str, color: str) -> None:
    """Points of one status and color, each with its place and its seeds; together, which is faster than one by one."""
    several = [(place, seeds) for place, seeds in points if len(seeds) > 1]
    if several:
        x = [one for place, _ in several for one in (place, place, nan)]  # a gap after each line
        axes.plot(x, [one for _, seeds in several for one in (min(seeds), max(seeds), nan)], color=color,
                  linewidth=1.2, alpha=0.6, zorder=1.5)  # fmt: skip
    axes.plot([place for place, _ in points], [fmean(seeds) for _, seeds in points], **point_style(status, color))


def point_style(status: str, color: str) -> dict[str, Any]:
    """The mark of a point."""
    return {"linestyle": "", "marker": SHAPES[status], "markersize": 5, "markeredgewidth": 1.2, "color": color,
            "markerfacecolor": PAPER if status in HOLLOW else color,
            "markeredgecolor": FAINT if status == "open" else color}  # fmt: skip


def ring_style(color: str, *, strong: bool) -> dict[str, Any]:
    """A ring around a point; `strong` for the best."""
    return {"linestyle": "", "marker": "o", "markersize": 10.5 if strong else 9, "markerfacecolor": "none",
            "markeredgecolor": color, "markeredgewidth": 2.2 if strong else 1.1, "zorder": 4}  # fmt: skip


def name_point(axes: Axes, row: TrialResult, place: tuple[float, float], *, below: bool = False) -> None:
    """A point's number above its mark or below it."""
    axes.annotate(f"#{row.trial.number}", place, xytext=(0, -9 if below else 9), ha="center",
                  va="top" if below else "bottom", textcoords="offset points", color=INK, fontweight="bold",
                  annotation_clip=False)  # fmt: skip


def status_handles(rows: Iterable[TrialResult]) -> list[Line2D]:
    """An entry of the key for each status that occurs."""
    seen = dict.fromkeys(row.answer.status for row in rows)
    return [Line2D([], [], **point_style(status, POINT), label=WORDS.get(status, status)) for status in seen]


def key(fig: Figure, handles: Sequence[Any], columns: int) -> None:
    """A legend over the panels."""
    fig.legend(handles=handles, loc="outside upper left", ncol=min(columns, len(handles)), frameon=False,
               labelcolor=MUTED, fontsize=7.5, handlelength=1.4, handletextpad=0.45, columnspacing=1.2,
               borderaxespad=0)  # fmt: skip


def best_sentence(result: StudyResult, rings: Sequence[TrialResult]) -> str:
    """Which point is best, and whether it has a heavy ring among `rings`."""
    names = listed([f"#{row.trial.number}" for row in result.winners])
    ringed = any(row in result.winners for row in rings)
    if len(result.winners) > 1:
        return f"{names} tie as best{' and have the heavy rings' if ringed else ''}."
    return f"{names} is the best{' and has the heavy ring' if ringed else ''}." if names else ""


def status_sentences(rows: Iterable[TrialResult]) -> list[str]:
    """What the marks mean that occur."""
    seen = {row.answer.status for row in rows}
    return [
        "A triangle is a point's first seed where it was stopped." if "stopped" in seen else "",
        "A cross diverged and counts at chance." if "diverged" in seen else "",
        "A hollow dot lacks a seed." if seen & {"incomplete", "open"} else "",
    ]
