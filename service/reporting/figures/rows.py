"""Figures with a row a trial: a mean with its interval, small dots for its seeds, its name at the left."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from search_spaces.claim import Better, Equivalent, NoWorse
from search_spaces.roles import CONFIRMATIONS
from search_spaces.study import Ablation, Published, Search
from search_spaces.words import quoted
from service.analysis.evidence import judged
from service.analysis.format import fixed, metric_words, signed
from service.analysis.headline import point_name
from service.analysis.statistics import FEWEST, Interval, Scores
from service.analysis.verdicts import Verdict
from service.reporting.figures import plot

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


ROW_IN = 0.36
NAME_IN = 0.15
"""The height of a row; what a name above it adds. Units: inches."""
SAME = 0.012
"""Seeds closer than this share of the axis are drawn above each other."""


@dataclass(frozen=True)
class FigureRow:
    """One row. `value`: the number in words; `strong`: the best; `hollow`: seeds are missing."""

    name: str
    mean: float
    interval: Interval | None
    look: plot.Look
    value: str
    strong: bool = False
    hollow: bool = False


def row_place(place: int) -> float:
    """Returns the height of a row, counted from the top."""
    return -float(place)


def draw_rows(rows: Sequence[FigureRow], label: str) -> tuple[Figure, Axes]:
    """Returns the rows from top to bottom; if names are long, they stand above their rows."""
    above = max(len(row.name) for row in rows) * plot.LETTER_IN > plot.WIDTH_IN / 2.5
    names = [textwrap.fill(row.name, int(plot.WIDTH_IN * 0.75 / plot.LETTER_IN)) if above else row.name for row in rows]
    lines = 1 + max(name.count("\n") for name in names)
    row_in = ROW_IN + (NAME_IN * lines if above else 0)
    fig, axes = plot.one_panel(0.75 + row_in * len(rows))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=plot.FAINT, linewidth=0.6)
    axes.spines["left"].set_visible(False)
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        _draw_row(axes, row_place(place), row)
        if above:
            axes.annotate(name, (0, row_place(place)), xycoords=("axes fraction", "data"), xytext=(0, 7),
                          textcoords="offset points", color=plot.INK, fontsize=8.5, in_layout=False, zorder=1.5,
                          bbox={"facecolor": plot.PAPER, "edgecolor": "none", "pad": 0.8},  # no line crosses a name
                          fontweight="bold" if row.strong else "normal")  # fmt: skip
    axes.set_yticks([row_place(place) for place in range(len(rows))], [""] * len(rows) if above else names,
                    color=plot.INK, fontsize=9)  # fmt: skip
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if row.strong else "normal")
    axes.set_ylim(row_place(len(rows) - 1) - 0.55, 0.85 if above else 0.55)
    axes.set_xlabel(label)
    axes.locator_params(axis="x", nbins=8)
    return fig, axes


def _draw_row(axes: Axes, at: float, row: FigureRow) -> None:
    color = row.look.color
    if row.interval:
        axes.plot(row.interval, [at, at], color=color, linewidth=2.2, solid_capstyle="butt", alpha=0.6)
    fill = plot.PAPER if row.hollow else color
    axes.plot([row.mean], [at], marker=row.look.marker, markersize=6.5, markerfacecolor=fill, markeredgecolor=color,
              zorder=4)  # fmt: skip
    axes.annotate(row.value, (1, at), xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
                  va="center", color=plot.ink(plot.MUTED, strong=row.strong), fontsize=8.5,
                  fontweight="bold" if row.strong else "normal", annotation_clip=False)  # fmt: skip


def draw_seeds(axes: Axes, place: int, values: Mapping[int, float], diverged: Set[int], color: str) -> None:
    """Draws a small dot per seed below the line, a cross where it diverged; stacks equal seeds so that all are seen."""
    low, high = axes.get_xlim()
    last, level = None, 0
    levels: dict[int, int] = {}
    for seed, value in sorted(values.items(), key=lambda item: item[1]):
        level = level + 1 if last is not None and value - last < SAME * (high - low) else 0
        last = value if level == 0 else last
        levels[seed] = level
    step = 0.27 / max(3, *levels.values()) if levels else 0.0
    heights = {seed: row_place(place) - 0.18 - step * level for seed, level in levels.items()}
    dot: dict[str, Any] = {"marker": "o", "markersize": 3, "color": color, "markeredgewidth": 0}
    cross: dict[str, Any] = {"marker": "x", "markersize": 3.6, "color": plot.MUTED}
    for seeds, style in ((values.keys() - diverged, dot), (values.keys() & diverged, cross)):
        if seeds:
            order = sorted(seeds)
            axes.plot([values[seed] for seed in order], [heights[seed] for seed in order], linestyle="", **style)


def dots(result: StudyResult) -> plot.Plot | None:
    """Returns the figure; None before any test score. A search shows its confirmation alone."""
    rows = shown(result)
    return plot.Plot("trials", _caption_dots(result, rows), lambda: _draw_dots(result, rows)) if rows else None


def shown(result: StudyResult) -> list[TrialResult]:
    """Returns the trials that have test scores: the arms, or a search's confirmed points; the highest first."""
    rows = [row for row in result.tested if row.test.mean is not None]
    return sorted(rows, key=lambda row: -(row.test.mean or 0.0))


def name(result: StudyResult, row: TrialResult) -> str:
    """Returns how a figure calls a trial: an arm's name, or a confirmed point."""
    return row.name if row.trial.role not in CONFIRMATIONS else point_name(result, row)


def _draw_dots(result: StudyResult, rows: Sequence[TrialResult]) -> Figure:
    palette = plot.Palette.of(result)
    lines = [
        FigureRow(name(result, row), row.test.mean or 0.0, row.test.interval,
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
        plot.chance_line(axes, chance, vertical=True)
    return fig


def _published_mark(axes: Axes, place: int, published: Published) -> None:
    at = row_place(place) + 0.27
    if published.spread:
        ends = published.value - published.spread, published.value + published.spread
        axes.plot(ends, [at] * 2, color=plot.INK, linewidth=0.8)
    axes.plot([published.value], [at], marker="D", markersize=4, markerfacecolor=plot.PAPER, markeredgecolor=plot.INK)


def _caption_dots(result: StudyResult, rows: Sequence[TrialResult]) -> str:
    known = [entry for row in rows for entry in result.published(row) if result.comparable(entry)]
    fresh = " on fresh seeds" if isinstance(result.edition.study.plan, Search) else ""
    interval = " with its 95 % interval" if any(row.test.interval for row in rows) else ""
    return plot.sentences((
        f"The {metric_words(result.edition.study.score.test)} of each trial{fresh}: the mean{interval}, and "
        "a small dot a seed.",
        f"No interval for fewer than {FEWEST} seeds." if any(row.test.interval is None for row in rows) else "",
        "A cross is a diverged seed, which counts at chance." if any(row.test.diverged for row in rows) else "",
        "A hollow dot lacks seeds." if any(not row.test.complete for row in rows) else "",
        f"Diamonds are published{', with their spread' if any(entry.spread for entry in known) else ''}."
        if known else "",
        "The best is in bold." if any(row in result.winners for row in rows) else "",
    ))  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """One row. `seeds`: the difference of each; `diverged`: in either trial.

    `margin`: how large a difference a claim asks for; `both`: whether it counts on both sides of 0.
    """

    name: str
    mean: float
    interval: Interval | None
    seeds: Mapping[int, float]
    diverged: frozenset[int]
    look: plot.Look
    margin: float = 0.0
    both: bool = False


def forest(result: StudyResult) -> plot.Plot | None:
    """Returns the figure; None if nothing is compared."""
    arms, claims = to_baseline(result), claimed(result)
    if not arms and not claims:
        return None
    return plot.Plot(
        "differences", _caption_forest(result, arms, claims), lambda: _draw_forest(result, [*arms, *claims])
    )


def to_baseline(result: StudyResult) -> list[Pair]:
    """Returns each arm minus the baseline, the largest difference first, with the interval of its test."""
    plan = result.edition.study.plan
    if not isinstance(plan, Ablation) or not result.differences:
        return []
    palette, scores, pairs = plot.Palette.of(result), result.scores, []
    for name, gap in result.differences.items():
        seeds = _seeds(scores[name], scores[plan.compared_with(name) or plan.baseline])
        pairs.append(Pair(name, gap.mean, gap.interval, *seeds, palette[result.named[name]]))
    return sorted(pairs, key=lambda pair: -pair.mean)


def claimed(result: StudyResult) -> list[Pair]:
    """Returns the pairs that judged claims compare, each with the interval of its verdict."""
    return [_claimed(result, verdict) for verdict in result.claims if _compares(verdict)]


def _compares(verdict: Verdict) -> bool:
    return isinstance(verdict.claim, Better | Equivalent | NoWorse) and verdict.measured is not None


def _claimed(result: StudyResult, verdict: Verdict) -> Pair:
    claim = verdict.claim
    assert isinstance(claim, Better | Equivalent | NoWorse)
    assert verdict.measured is not None
    scores = judged(claim, result.scores_at(claim.image_size))
    seeds = _seeds(scores[claim.who], scores[claim.than])
    look = plot.Palette.of(result)[result.named[claim.who]]
    name = f"claim: {quoted(claim.who)} − {quoted(claim.than)}{claim.where}"
    both = isinstance(claim, Equivalent)
    margin = -claim.margin if isinstance(claim, NoWorse) else claim.margin
    return Pair(name, verdict.measured, verdict.interval, *seeds, look, margin, both)


def _seeds(who: Scores, than: Scores) -> tuple[dict[int, float], frozenset[int]]:
    """Returns the difference of each seed that both have, and the seeds of which either diverged."""
    shared = sorted(who.values.keys() & than.values.keys())
    gaps = {seed: who.values[seed] - than.values[seed] for seed in shared}
    return gaps, who.diverged | than.diverged


def _draw_forest(result: StudyResult, pairs: Sequence[Pair]) -> Figure:
    rows = [FigureRow(pair.name, pair.mean, pair.interval, pair.look, signed(pair.mean)) for pair in pairs]
    fig, axes = draw_rows(rows, f"difference of {metric_words(result.edition.study.score.test)}, paired by seed")
    axes.axvline(0, color=plot.MUTED, linewidth=0.9, zorder=1)
    for place, pair in enumerate(pairs):
        draw_seeds(axes, place, pair.seeds, pair.diverged, pair.look.color)
        if pair.margin:
            _draw_margin(axes, row_place(place), pair)
    return fig


def _draw_margin(axes: Axes, at: float, pair: Pair) -> None:
    """Draws an upright mark at each end of the margin, with a band between them where it has two."""
    ends = (-pair.margin, pair.margin) if pair.both else (pair.margin,)
    if pair.both:
        axes.fill_between(ends, at - 0.3, at + 0.3, color=plot.FAINT, alpha=0.6, linewidth=0, zorder=0)
    for end in ends:
        axes.plot([end, end], [at - 0.3, at + 0.3], color=plot.INK, linewidth=0.9)


def _earlier(result: StudyResult) -> bool:
    """Returns whether a row shows what an earlier look found."""
    claims = [verdict.later for verdict in result.claims if _compares(verdict)]
    return any(found is not None for found in (*claims, *(gap.later for gap in result.differences.values())))


def _caption_forest(result: StudyResult, arms: Sequence[Pair], claims: Sequence[Pair]) -> str:
    plan, pairs = result.edition.study.plan, [*arms, *claims]
    tested = any(pair.interval for pair in arms)
    first = ""
    if arms and isinstance(plan, Ablation):
        together = ", with 95 % intervals that hold together" if tested else ""
        first = f"Each arm minus {plan.baseline_words}, paired by seed{together}; a small dot is a seed."
    second = "Claims: the two trials of a claim, with the interval that decided it." if claims else ""
    return plot.sentences((
        first,
        second if arms else f"{second} A small dot is a seed.",
        "An arm whose interval leaves out 0 differs significantly." if tested else "",
        "What an earlier look found has the mean and the interval of its own seeds." if _earlier(result) else "",
        "The band between two upright marks is the margin within which two trials count as equal."
        if any(pair.both for pair in pairs) else "",
        "An upright mark is the difference that a claim asks for."
        if any(pair.margin and not pair.both for pair in pairs) else "",
        "A cross is a seed of which one of the two diverged."
        if any(pair.diverged & pair.seeds.keys() for pair in pairs) else "",
        f"No interval for fewer than {FEWEST} pairs." if any(pair.interval is None for pair in pairs) else "",
    ))  # fmt: skip
