"""The figures of a report, chosen by what a study asked.

A search: the score over each searched path. An ablation, and a search's confirmation: a dot a trial with its interval
and the published value. Both: learning curves; and the test score over sides of images, where a study has several.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from search_spaces.space import Above, Choice, Domain, Real, Subset
from search_spaces.study import Published, Search
from service.analysis.format import metric_words, number
from service.analysis.statistics import FEWEST
from service.reporting.curves import learning_curves
from service.reporting.image_sizes import size_curves
from service.reporting.svg import ACCENT, FAINT, INK, MUTED, PAPER, SERIES, STYLE, chance_line, figure, to_svg

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


PANELS = 3
"""How many searched paths are drawn side by side."""
MOST_TICKS = 12
"""How many labels the width of a figure holds."""


@dataclass(frozen=True)
class Drawn:
    """A figure's SVG, the name of its file, and what it shows."""

    name: str
    svg: str
    caption: str


def figures(result: StudyResult) -> list[Drawn]:
    """Every figure that the numbers allow, the most important first. Cost: about 0.3 s each."""
    with mpl.rc_context(STYLE):
        return [drawn for make in (_landscape, _dots, _sides, _curves) if (drawn := make(result)) is not None]


def _curves(result: StudyResult) -> Drawn | None:
    drawn = learning_curves(result)
    return drawn and Drawn("curves", to_svg(drawn[0], "curves"), drawn[1])


def _sides(result: StudyResult) -> Drawn | None:
    drawn = size_curves(result)
    return drawn and Drawn("sides", to_svg(drawn[0], "sides"), drawn[1])


def _landscape(result: StudyResult) -> Drawn | None:
    plan = result.edition.study.plan
    rows = [row for row in result.of("trial") if row.validation.values]
    if not isinstance(plan, Search) or not rows:
        return None
    paths = {path: domain for path, domain in plan.space.every() if not isinstance(domain, Subset)}
    if not paths:
        return None
    fig, panels = figure(3.1, min(len(paths), PANELS))
    for axes, (path, domain) in zip(panels, paths.items(), strict=False):
        _over(axes, result, path, domain)
    panels[0].set_ylabel(metric_words(result.edition.study.score.metric))
    _key(fig, result)
    return Drawn("landscape", to_svg(fig, "landscape"), _landscape_caption(result, len(paths)))


def _over(axes: Axes, result: StudyResult, path: str, domain: Domain) -> None:
    """The validation score of every trial over one path, marked by how the trial ended."""
    logarithmic = isinstance(domain, Above) or (isinstance(domain, Real) and domain.log)
    axes.set_xscale("log" if logarithmic else "linear")
    axes.set_xlabel(path)
    chance_line(axes, result.edition.study.base.data.chance)
    for row in result.of("trial"):
        value = row.value(path)
        if value is not None and row.validation.mean is not None:
            _mark(axes, str(value) if isinstance(domain, Choice) else value, row)
    for row in result.confirmed:
        value = row.value(path)
        if value is not None and row.validation.mean is not None:
            _confirmed_mark(axes, str(value) if isinstance(domain, Choice) else value, row, row in result.winners)
    if logarithmic:
        _log_ticks(axes, room=MOST_TICKS // len(axes.figure.axes))


def _log_ticks(axes: Axes, room: int) -> None:
    """Round numbers on a log axis, as many as there is room for."""
    low, high = axes.get_xlim()
    decades = math.log10(high / low)
    steps = next((steps for steps in ((1.0, 2.0, 5.0), (1.0, 3.0)) if decades * len(steps) <= room), (1.0,))
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(NullLocator())


MARKS: dict[str, dict[str, Any]] = {
    "completed": {"marker": "o", "markerfacecolor": SERIES[0], "markeredgecolor": SERIES[0]},
    "stopped": {"marker": "v", "markerfacecolor": PAPER, "markeredgecolor": MUTED},
    "diverged": {"marker": "x", "markerfacecolor": MUTED, "markeredgecolor": INK},
    "incomplete": {"marker": "o", "markerfacecolor": PAPER, "markeredgecolor": SERIES[0]},
    "open": {"marker": "o", "markerfacecolor": PAPER, "markeredgecolor": FAINT},
}
"""How a trial's status looks."""
WORDS = {"completed": "all seeds", "stopped": "stopped early", "incomplete": "a seed failed", "open": "under way"}


def _mark(axes: Axes, x: Any, row: TrialResult) -> None:
    seeds = list(row.validation.values.values())
    if len(seeds) > 1:
        axes.plot([x, x], [min(seeds), max(seeds)], color=SERIES[0], linewidth=1.2, alpha=0.7)
    axes.plot(
        [x], [row.validation.mean or 0.0], linestyle="", markersize=5, markeredgewidth=1.2, **MARKS[row.answer.status]
    )


def _confirmed_mark(axes: Axes, x: Any, row: TrialResult, best: bool) -> None:
    axes.plot([x], [row.validation.mean or 0.0], linestyle="", marker="o", markersize=10, markerfacecolor="none",
              markeredgecolor=ACCENT, markeredgewidth=1.6 if best else 0.9)  # fmt: skip
    if best:
        axes.annotate(f"#{row.trial.number}", (x, row.validation.mean), xytext=(0, 9), ha="center",
                      textcoords="offset points", color=ACCENT, fontweight="bold", annotation_clip=False)  # fmt: skip


def _key(fig: Figure, result: StudyResult) -> None:
    """A legend over the panels, with only the marks that occur."""
    axes = fig.axes[0]
    seen = dict.fromkeys(row.answer.status for row in result.of("trial") if row.validation.values)
    handles = [axes.plot([], [], linestyle="", markersize=5, markeredgewidth=1.2, **MARKS[status],
                         label=WORDS.get(status, status))[0] for status in seen]  # fmt: skip
    if result.confirmed:
        handles += axes.plot([], [], linestyle="", marker="o", markersize=8, markerfacecolor="none",
                             markeredgecolor=ACCENT, label="confirmed on fresh seeds")  # fmt: skip
    fig.legend(handles=handles, loc="outside upper left", ncol=len(handles), frameon=False, labelcolor=MUTED,
               fontsize=7.5, handletextpad=0.1, columnspacing=1.2, borderaxespad=0)  # fmt: skip


def _landscape_caption(result: StudyResult, paths: int) -> str:
    metric = metric_words(result.edition.study.score.metric)
    return (
        f"The {metric} of every point: the mean over its seeds, with a line from the lowest seed to the highest. "
        "A stopped point shows its first seed where it stopped; a diverged one is drawn at chance. "
        "Rings are the same points on fresh seeds, the chosen one heavy."
        + (f" The first {PANELS} of {paths} searched paths." if paths > PANELS else "")
    )


def _dots(result: StudyResult) -> Drawn | None:
    named = [row for row in (result.confirmed or result.of("trial")) if row.test.mean is not None]
    if not named or (isinstance(result.edition.study.plan, Search) and not result.confirmed):
        return None
    rows = sorted(named, key=lambda row: row.test.mean or 0.0)
    fig, (axes,) = figure(0.9 + 0.34 * len(rows))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.spines["left"].set_visible(False)
    for place, row in enumerate(rows):
        _dot(axes, place, row, row in result.winners)
        for published in filter(result.comparable, result.published(row)):
            _published_mark(axes, place, published)
    axes.set_yticks(range(len(rows)), [_label(result, row) for row in rows], color=INK, fontsize=9)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel(metric_words(result.edition.study.score.test))
    if min(row.test.mean or 0.0 for row in rows) < (result.edition.study.base.data.chance + 1) / 2:
        chance_line(axes, result.edition.study.base.data.chance, vertical=True)
    return Drawn("trials", to_svg(fig, "trials"), _dots_caption(result))


def _dot(axes: Axes, place: int, row: TrialResult, best: bool) -> None:
    color = ACCENT if best else SERIES[0]
    seeds = [value for seed, value in row.test.values.items() if seed not in row.test.diverged]
    axes.plot(seeds, [place - 0.24] * len(seeds), linestyle="", marker="|", markersize=4, color=MUTED, alpha=0.8)
    fallen = [row.test.values[seed] for seed in row.test.diverged]
    axes.plot(fallen, [place - 0.24] * len(fallen), linestyle="", marker="x", markersize=4, color=MUTED)
    if row.test.interval and not row.test.split:
        axes.plot(row.test.interval, [place, place], color=color, linewidth=2, solid_capstyle="butt", alpha=0.55)
    face = color if row.test.complete else PAPER
    axes.plot([row.test.mean or 0.0], [place], marker="o", markersize=6, markerfacecolor=face, markeredgecolor=color)
    axes.annotate(number(row.test.mean or 0.0), (1, place), xycoords=("axes fraction", "data"), xytext=(8, 0),
                  textcoords="offset points", va="center", color=color, fontsize=9,
                  fontweight="bold" if best else "normal", annotation_clip=False)  # fmt: skip


def _published_mark(axes: Axes, place: int, published: Published) -> None:
    if published.spread:
        ends = published.value - published.spread, published.value + published.spread
        axes.plot(ends, [place + 0.22] * 2, color=INK, linewidth=0.8)
    axes.plot([published.value], [place + 0.22], marker="D", markersize=4, markerfacecolor=PAPER, markeredgecolor=INK)


def _label(result: StudyResult, row: TrialResult) -> str:
    if row.trial.role != "confirmation":
        return row.name
    return f"{row.name} (tried first)" if result.named.get("first") is row else row.name


def _dots_caption(result: StudyResult) -> str:
    drawn = any(result.comparable(known) for row in result.named.values() for known in result.published(row))
    fresh = " on fresh seeds" if isinstance(result.edition.study.plan, Search) else ""
    parts = [
        f"The {metric_words(result.edition.study.score.test)} of each trial{fresh}: mean and 95 % interval "
        f"(none for fewer than {FEWEST} seeds, or for seeds that split in two);",
        "ticks are seeds, a cross is a diverged one at chance; a hollow dot lacks seeds.",
        "Diamonds: published, with their spread." if drawn else "",
    ]
    return " ".join(filter(None, parts))
