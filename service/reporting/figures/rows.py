"""Draws what trials score: rows with a mean, its interval and every seed; differences; and scores over costs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from search_spaces.claim import Better, Equivalent, NoWorse
from search_spaces.roles import CONFIRMATIONS
from search_spaces.words import quoted
from service.analysis.evidence import judged
from service.analysis.format import fixed, metric_words, signed
from service.analysis.headline import point_name
from service.analysis.statistics import FEWEST, Interval, Scores
from service.analysis.study_result import StudyResult
from service.analysis.trial_result import TrialResult
from service.reporting.figures import plot
from service.reporting.provenance import cost_warning, train_time_unit, training_s
from trainables.recipe.cost import estimate_cost

ROW_IN, NAME_IN = 0.36, 0.15
"""The height of a row, and the height that each line of a name above it adds. Units: inches."""
SAME = 0.012
"""Seeds closer than this share of the axis are drawn above each other."""
DIFFERS = 1.1
"""A cost is drawn only if the highest is more than so many times the lowest: equal trainings differ by some percent."""

TRIALS = (
    "The test score of each trial, of a search on fresh seeds: the mean with its 95 % interval, and a small dot a "
    f"seed. No interval for fewer than {FEWEST} seeds. A cross is a diverged seed, which counts at chance; a hollow "
    "dot lacks seeds. Diamonds are published, with their spread. The best is in bold."
)
DIFFERENCES = (
    "Each trial minus {}, paired by seed, with 95 % intervals that hold together; a small dot is a seed, a cross one "
    "of which either trial diverged. A trial whose interval leaves out 0 differs significantly. Claims: the two trials "
    "of a claim, with the interval that decided it; an upright mark is the difference that it asks for, a band between "
    "two of them the margin within which trials count as equal. What an earlier look found has the mean and the "
    f"interval of its own seeds. No interval for fewer than {FEWEST} pairs."
)
COST = (
    "The test score of each trial, with the 95 % interval, over the time of training and over the parameters, each "
    "where trials differ in it. The time is the median over a trial's completed runs, without that of its parents; of "
    "trials that were timed side by side, the median of turns that they took one after another. The best is in bold."
)


@dataclass(frozen=True)
class FigureRow:
    """Is one row of a figure: a mean with its interval.

    `value` is the mean as text. `strong` marks the best trial, and `hollow` a trial that lacks seeds.
    """

    name: str
    mean: float
    interval: Interval | None
    look: plot.Look
    value: str
    strong: bool = False
    hollow: bool = False


def draw_rows(rows: Sequence[FigureRow], label: str) -> tuple[Figure, Axes]:
    """Draws the rows from top to bottom, at y = 0, -1, -2; long names stand above them. `label` names the x axis."""
    above = max(len(row.name) for row in rows) * plot.LETTER_IN > plot.WIDTH_IN / 2.5
    names = [textwrap.fill(row.name, int(plot.WIDTH_IN * 0.75 / plot.LETTER_IN)) if above else row.name for row in rows]
    lines = 1 + max(name.count("\n") for name in names)
    fig, axes = plot.one_panel(0.75 + (ROW_IN + (NAME_IN * lines if above else 0)) * len(rows))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=plot.FAINT, linewidth=0.6)
    axes.spines["left"].set_visible(False)
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        y, color, weight = -number, row.look.color, "bold" if row.strong else "normal"
        if row.interval:
            axes.plot(row.interval, [y, y], color=color, linewidth=2.2, solid_capstyle="butt", alpha=0.6)
        axes.plot([row.mean], [y], marker=row.look.marker, markersize=6.5, markeredgecolor=color,
                  markerfacecolor=plot.PAPER if row.hollow else color, zorder=4)  # fmt: skip
        axes.annotate(row.value, (1, y), xycoords=("axes fraction", "data"), xytext=(6, 0), va="center",
                      textcoords="offset points", color=plot.INK if row.strong else plot.MUTED, fontsize=8.5,
                      fontweight=weight, annotation_clip=False)  # fmt: skip
        if above:
            axes.annotate(name, (0, y), xycoords=("axes fraction", "data"), xytext=(0, 7), fontsize=8.5,
                          textcoords="offset points", color=plot.INK, in_layout=False, zorder=1.5, fontweight=weight,
                          bbox={"facecolor": plot.PAPER, "edgecolor": "none", "pad": 0.8})  # fmt: skip
    axes.set_yticks([-number for number in range(len(rows))], [""] * len(rows) if above else names,
                    color=plot.INK, fontsize=9)  # fmt: skip
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if row.strong else "normal")
    axes.set_ylim(0.45 - len(rows), 0.85 if above else 0.55)
    axes.set_xlabel(label)
    axes.locator_params(axis="x", nbins=8)
    return fig, axes


def draw_seeds(axes: Axes, number: int, values: Mapping[int, float], diverged: Set[int], color: str) -> None:
    """Draws the score of each seed below the row `number`: a small dot, or a cross for a seed that diverged.

    Marks of nearly equal scores are stacked, so that all can be seen.
    """
    low, high = axes.get_xlim()
    last, level = None, 0
    levels: dict[int, int] = {}
    for seed, value in sorted(values.items(), key=lambda item: item[1]):
        level = level + 1 if last is not None and value - last < SAME * (high - low) else 0
        last = value if level == 0 else last
        levels[seed] = level
    step = 0.27 / max(3, *levels.values()) if levels else 0.0
    dot: dict[str, Any] = {"marker": "o", "markersize": 3, "color": color, "markeredgewidth": 0}
    cross: dict[str, Any] = {"marker": "x", "markersize": 3.6, "color": plot.MUTED}
    for seeds, style in ((values.keys() - diverged, dot), (values.keys() & diverged, cross)):
        if seeds:
            order = sorted(seeds)
            heights = [-number - 0.18 - step * levels[seed] for seed in order]
            axes.plot([values[seed] for seed in order], heights, linestyle="", **style)


def scored_rows(result: StudyResult) -> list[TrialResult]:
    """Returns the trials that have test scores: the arms, or a search's confirmed points; the highest first."""
    rows = [row for row in result.tested if row.test.mean is not None]
    return sorted(rows, key=lambda row: -(row.test.mean or 0.0))


def name(result: StudyResult, row: TrialResult) -> str:
    """Returns the name of a trial in a figure: an arm's name, or a confirmed point with what is special about it."""
    return row.name if row.trial.role not in CONFIRMATIONS else point_name(result, row)


def dots(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of test scores; None before any test score. Of a search it shows only the confirmed points."""
    rows = scored_rows(result)

    def draw() -> Figure:
        palette = plot.Palette.of(result)
        lines = [
            FigureRow(name(result, row), row.test.mean or 0.0, row.test.interval,
                palette[row], fixed(row.test.mean or 0.0), strong=row in result.winners, hollow=not row.test.complete)
            for row in rows
        ]  # fmt: skip
        fig, axes = draw_rows(lines, metric_words(result.edition.study.score.test))
        for number, row in enumerate(rows):
            draw_seeds(axes, number, row.test.values, row.test.diverged, palette[row].color)
            for entry in filter(result.comparable, result.published(row)):
                y = 0.27 - number
                if entry.spread:
                    ends = entry.value - entry.spread, entry.value + entry.spread
                    axes.plot(ends, [y, y], color=plot.INK, linewidth=0.8)
                axes.plot([entry.value], [y], marker="D", markersize=4, markerfacecolor=plot.PAPER,
                          markeredgecolor=plot.INK)  # fmt: skip
        chance = result.edition.study.base.data.chance("test")
        if min(row.test.mean or 0.0 for row in rows) < (chance + 1) / 2:
            plot.chance_line(axes, chance, vertical=True)
        return fig

    return plot.Plot("trials", TRIALS, draw) if rows else None


@dataclass(frozen=True)
class Pair:
    """Is one row of the figure of differences: one trial minus another.

    `seeds` has the difference of each seed, and `diverged` the seeds that diverged in either trial. `margin` is the
    difference that a claim asks for; `both` says whether it counts on both sides of 0.
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
    """Returns the figure of differences between trials; None if no trials are compared."""
    pairs, plan = [*to_baseline(result), *claimed(result)], result.edition.study.plan

    def draw() -> Figure:
        rows = [FigureRow(pair.name, pair.mean, pair.interval, pair.look, signed(pair.mean)) for pair in pairs]
        fig, axes = draw_rows(rows, f"difference of {metric_words(result.edition.study.score.test)}, paired by seed")
        axes.axvline(0, color=plot.MUTED, linewidth=0.9, zorder=1)
        for number, pair in enumerate(pairs):
            draw_seeds(axes, number, pair.seeds, pair.diverged, pair.look.color)
            if not pair.margin:
                continue
            ends = (-pair.margin, pair.margin) if pair.both else (pair.margin,)
            if pair.both:
                axes.fill_between(ends, -number - 0.3, 0.3 - number, color=plot.FAINT, alpha=0.6, linewidth=0, zorder=0)
            for end in ends:
                axes.plot([end, end], [-number - 0.3, 0.3 - number], color=plot.INK, linewidth=0.9)
        return fig

    baseline = plan.baseline_words
    return plot.Plot("differences", DIFFERENCES.format(baseline), draw) if pairs else None


def to_baseline(result: StudyResult) -> list[Pair]:
    """Returns the differences of all arms to the baseline, the largest first, each with the interval of its test."""
    plan = result.edition.study.plan
    if not result.differences:
        return []
    palette, scores, pairs = plot.Palette.of(result), result.scores, []
    for name, gap in result.differences.items():
        seeds = _seeds(scores[name], scores[plan.compared_with(name) or plan.baseline])
        pairs.append(Pair(name, gap.mean, gap.interval, *seeds, palette[result.named[name]]))
    return sorted(pairs, key=lambda pair: -pair.mean)


def claimed(result: StudyResult) -> list[Pair]:
    """Returns the pairs of trials that judged claims compare, each with the interval of its verdict."""
    palette, pairs = plot.Palette.of(result), []
    for verdict in result.claims:
        claim = verdict.claim
        if verdict.measured is None or not isinstance(claim, Better | Equivalent | NoWorse):
            continue
        scores = judged(claim, result.scores_at(claim.image_size))
        seeds = _seeds(scores[claim.who], scores[claim.than])
        title = f"claim: {quoted(claim.who)} − {quoted(claim.than)}{claim.where}"
        margin = -claim.margin if isinstance(claim, NoWorse) else claim.margin
        look, both = palette[result.named[claim.who]], isinstance(claim, Equivalent)
        pairs.append(Pair(title, verdict.measured, verdict.interval, *seeds, look, margin, both))
    return pairs


def _seeds(who: Scores, than: Scores) -> tuple[dict[int, float], frozenset[int]]:
    """Returns `who` minus `than` for each seed that both have, and the seeds that diverged in either."""
    shared = sorted(who.values.keys() & than.values.keys())
    gaps = {seed: who.values[seed] - than.values[seed] for seed in shared}
    return gaps, who.diverged | than.diverged


def cost(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of scores over costs; None if no two trials differ in a cost.

    The costs are the training time and the number of parameters, each shown if trials differ in it by more than chance.
    If all arms were timed by turns on one machine, that time is taken.
    """
    rows = [row for row in scored_rows(result) if training_s(row) is not None]
    unit, seconds = train_time_unit(rows)
    side_by_side = result.history.costs.arms
    costs = {f"training time of a run ({unit})": [(training_s(row) or 0.0) / seconds for row in rows]}
    if {row.name for row in rows} <= side_by_side.keys():
        costs = {"time of a training image (ms)": [1000 * median(side_by_side[row.name].train_s) for row in rows]}
    costs["parameters"] = [float(estimate_cost(row.recipe).parameters) for row in rows]
    costs = {label: values for label, values in costs.items() if values and max(values) > DIFFERS * min(values)}
    caption = " ".join(filter(None, [COST, cost_warning(result)]))
    return plot.Plot("cost", caption, lambda: _draw_costs(result, rows, costs)) if costs else None


def _draw_costs(result: StudyResult, rows: Sequence[TrialResult], costs: Mapping[str, Sequence[float]]) -> Figure:
    palette, height = plot.Palette.of(result), max(2.6, 0.17 * len(rows))
    fig, panels = plot.panel_grid(len(costs), len(costs), height)
    for axes, (label, values) in zip(panels, costs.items(), strict=True):
        axes.grid(axis="x", color=plot.FAINT, linewidth=0.6)
        axes.margins(x=0.1)
        for row, x in zip(rows, values, strict=True):
            color = palette[row].color
            if row.test.interval:
                axes.plot([x, x], row.test.interval, color=color, linewidth=1.6, alpha=0.55)
            axes.plot([x], [row.test.mean or 0.0], marker=palette[row].marker, markersize=6, color=color, zorder=3)
        if min(values) > 0 and max(values) > 10 * min(values):
            axes.set_xscale("log")
        else:
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4 if len(costs) > 1 else 7))
        axes.xaxis.set_major_formatter(_count)
        axes.set_xlabel(label)
    panels[0].set_ylabel(metric_words(result.edition.study.score.test))
    short = {"confirmation": "#", "rival_confirmation": "#r"}
    labels = []
    for row in rows:
        text = f"{short[row.trial.role]}{row.trial.number}" if row.trial.role in short else row.name
        labels.append(plot.Label(text, row.test.mean or 0.0, palette[row].color, strong=row in result.winners))
    plot.label_ends(panels[-1], labels, height - 0.5)
    return fig


def _count(value: float, _: float) -> str:
    """Returns the label of a cost on an axis: `1.2 M`, `58 k`, `12.5`."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.6g}"
