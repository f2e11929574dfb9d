"""Draws lines of scores: over epochs, lengths of training, sides of images, and numbers of training images.

A line is the mean over seeds, with a band from the lowest to the highest seed. From the epoch on at which a seed
diverged, it is drawn at chance, so that the line ends at the trial's score.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from service.analysis.across_trials import length_scores
from service.analysis.data_efficiency import Curve
from service.analysis.format import metric_words
from service.analysis.statistics import FEWEST
from service.analysis.study_result import StudyResult
from service.analysis.trial_result import TrialResult
from service.reporting.figures import plot
from service.reporting.figures.rows import name, scored_rows

Values = dict[int, list[float]]
"""By the epoch, or by the side or the number of images: the scores, one per seed."""
ENDS = {"stopped": "v", "raced": "v", "diverged": "x"}
"""By the status of a trial that lacks epochs, or left the race before its last seed: the mark at its line's end."""
STEPS = 80
"""The number of straight pieces with which the curve of a power law is drawn."""
APART = 0.25
"""The marks of one size are spread over this share of the space between two sizes, so that they do not overlap."""
LEAST_SPAN = 0.01
"""An axis of scores shows more than this; else names at the ends of its lines would find no room."""

BAND = "the mean over seeds, with a band from the lowest seed to the highest"
CURVES = (
    f"Learning curves: {BAND}. Of a search the confirmed points are in color, on fresh seeds; its points are gray, and "
    "so are trials that tune others. A triangle was stopped there, or left the race after the seeds of its line; a "
    "cross diverged there. While runs train, a line is the mean of the seeds that reached an epoch. Heavy lines are "
    "the best trials."
)
LENGTHS = (
    "Score over the length of training: at each length that of a model whose rate has fallen, as if its training ended "
    f"there; {BAND}, and a dot a seed. A triangle left the race after the seeds of its line. Heavy lines are the best "
    "trials."
)
SIDES = (
    f"Models tested at sides of images that they were not trained for, without fine-tuning: {BAND}. Upright lines are "
    "the sides of the training images. Heavy lines are the best trials."
)
DATA_SIZES = (
    "The test score over the number of training images: a bar at the mean over seeds with its 95 % interval, and a dot "
    "a seed. The line is the mean of the power laws that were fitted to the seeds; there is none where no seed has a "
    f"score at every size. No interval for fewer than {FEWEST} seeds. A cross is a diverged seed, which counts at "
    "chance. Marks of one size stand beside each other."
)


@dataclass(frozen=True)
class Line:
    """Is the line of one trial.

    `end` is a key of `ENDS` if the trial lacks epochs or seeds. A line with an empty name has no label. `strong` draws
    it heavy, for the best trials.
    """

    values: Values
    look: plot.Look
    name: str = ""
    strong: bool = False
    end: str = ""


def learning_curves(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of learning curves, scores over epochs.

    It is None before any epoch was measured, and for a study of several lengths of training, whose figure says more.
    """
    lines = [] if result.lengths else curve_lines(result)

    def draw() -> Figure:
        fig, axes = panel_of_lines(lines, result.edition.study.base.data.chance("val"))
        axes.set(xlabel="trained epochs", ylabel=metric_words(result.edition.study.score.metric))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        return fig

    return plot.Plot("curves", CURVES, draw) if lines else None


def curve_lines(result: StudyResult) -> list[Line]:
    """Returns the lines of the figure; first those without a name, a search's points, gray and under the others."""
    palette = plot.Palette.of(result)
    lines = []
    trials = [*result.of("trial"), *result.confirmed]
    begun = any(run.curve for row in trials for run in row.runs.values())
    for row in trials if begun else result.of("tuning"):
        values = _seeds_by_epoch(result, row)
        if values:
            look, title = plot.GRAY, ""
            fresh = row.trial.role == "confirmation"
            if row.trial.role != "tuning" and palette.has_color(row) and (fresh or not result.confirmed):
                look = palette[row]
                title = row.name if result.edition.study.plan.arms else f"#{row.trial.number}"
            end = "raced" if row.answer.raced else row.answer.status if row.answer.status in ENDS else ""
            lines.append(Line(values, look, title, row in result.winners, end))
    return sorted(lines, key=lambda line: bool(line.name))


def _seeds_by_epoch(result: StudyResult, row: TrialResult) -> Values:
    """Returns, by epoch, the scores of a trial's seeds. Diverged seeds go on at chance; failed seeds are left out."""
    metric, chance = result.edition.study.score.metric, row.recipe.data.chance("val")
    by_epoch: Values = {}
    for run in row.runs.values():
        for epoch, values in run.curve.items():
            if metric in values and run.state.status != "failed":
                by_epoch.setdefault(epoch, []).append(values[metric])
    lost = all(run.state.status == "diverged" for run in row.runs.values())
    last = row.recipe.optimizer.trained_epochs if lost else max(by_epoch, default=0)
    for run in row.runs.values():
        if run.state.status == "diverged" and row.answer.status != "diverged":
            for epoch in range(run.epochs + 1, last + 1):
                by_epoch.setdefault(epoch, []).append(chance)
    return dict(sorted(by_epoch.items()))


def length_curves(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of scores over the length of training; None where trials are measured at one length."""
    palette, lines = plot.Palette.of(result), []
    for row in result.of("trial"):
        if row.recipe.optimizer.lengths and (scores := length_scores(row)):
            values = {length: [*by_seed.values()] for length, by_seed in scores.items()}
            end = "raced" if row.answer.raced else ""
            lines.append(Line(values, palette[row], row.name, row in result.winners, end))

    def draw() -> Figure:
        fig, axes = panel_of_lines(lines, result.edition.study.base.data.chance("val"))
        axes.set(ylabel=metric_words(result.edition.study.score.metric))
        draw_lengths(axes, {length for line in lines for length in line.values})
        for line in lines:
            x = [length for length, scores in line.values.items() for _ in scores]
            y = [score for scores in line.values.values() for score in scores]
            axes.plot(x, y, linestyle="", marker="o", markersize=2.5, color=line.look.color, alpha=0.6)
        return fig

    return plot.Plot("lengths", LENGTHS, draw) if lines else None


def draw_lengths(axes: Axes, lengths: Collection[int]) -> None:
    """Gives axes a scale of lengths of training, on which each doubling is as long. Units: epochs."""
    axes.set(xscale="log", xlabel="epochs of training")
    axes.set_xticks(sorted(lengths), [str(length) for length in sorted(lengths)])
    axes.xaxis.set_minor_locator(NullLocator())


def size_curves(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of scores over sides of test images; None if no trial was tested at another side."""
    rows = [row for row in scored_rows(result) if any(scores.values for scores in row.test_sizes.values())]
    palette, lines = plot.Palette.of(result), []
    for row in rows:
        by_side = {row.recipe.data.size[1]: row.test, **row.test_sizes}
        values = {side: [*scores.values.values()] for side, scores in sorted(by_side.items()) if scores.values}
        lines.append(Line(values, palette[row], name(result, row), row in result.winners))

    def draw() -> Figure:
        fig, axes = panel_of_lines(lines, result.edition.study.base.data.chance("test"))
        axes.set(xlabel="side of the test images in pixels", ylabel=metric_words(result.edition.study.score.test))
        axes.set_xticks(sorted({side for line in lines for side in line.values}))
        for side in sorted({row.recipe.data.size[1] for row in rows}):
            axes.axvline(side, color=plot.MUTED, linewidth=0.8)
        return fig

    return plot.Plot("sides", SIDES, draw) if lines else None


def panel_of_lines(lines: Sequence[Line], chance: float) -> tuple[Figure, Axes]:
    """Returns a figure of one panel with these lines."""
    height = max(3.3, 0.19 * (sum(bool(line.name) for line in lines) + 1))
    fig, axes = plot.one_panel(height)
    draw_lines(axes, lines, chance, height)
    return fig, axes


def draw_lines(axes: Axes, lines: Sequence[Line], chance: float, height_in: float) -> None:
    """Draws lines with their names at their ends. Lines without a name, maybe hundreds, are drawn together.

    Units: `height_in`, the height of the panel, is in inches.
    """
    named, gray = [line for line in lines if line.name], [line for line in lines if not line.name]
    means = [[(x, fmean(scores)) for x, scores in line.values.items()] for line in gray]
    if gray:
        axes.add_collection(LineCollection(means, colors=plot.GRAY.color, linewidths=0.8, alpha=0.75, zorder=1.5))
    for end, marker in ENDS.items():
        last = [points[-1] for line, points in zip(gray, means, strict=True) if line.end == end]
        if last:
            axes.plot(*zip(*last, strict=True), linestyle="", marker=marker, markersize=3.5, color=plot.GRAY.color)
    for line in named:
        x, y, color = list(line.values), [fmean(scores) for scores in line.values.values()], line.look.color
        if any(len(scores) > 1 for scores in line.values.values()):
            low, high = map(min, line.values.values()), map(max, line.values.values())
            axes.fill_between(x, [*low], [*high], color=color, alpha=0.13, linewidth=0)
        axes.plot(x, y, color=color, linestyle=line.look.dash, linewidth=2.6 if line.strong else 1.4,
                  marker="o" if len(x) == 1 else None, markersize=3, zorder=3 if line.strong else 2)  # fmt: skip
        if line.end:
            axes.plot(x[-1:], y[-1:], marker=ENDS[line.end], markersize=5, color=color, zorder=4)
    plot.chance_line(axes, chance, named=False)
    bottom, top = axes.get_ylim()
    if top - bottom < LEAST_SPAN:  # all at chance
        axes.set_ylim(bottom - LEAST_SPAN, top + LEAST_SPAN)
    _name_lines(axes, named, chance, height_in)


def _name_lines(axes: Axes, lines: Sequence[Line], chance: float, height_in: float) -> None:
    """Writes the names of lines, and the word chance, at the right ends. Units: inches of the figure's height."""
    labels = [
        plot.Label(line.name, fmean(list(line.values.values())[-1]), line.look.color, line.strong) for line in lines
    ]
    plot.label_ends(axes, [*labels, plot.Label("chance", chance, plot.MUTED)], height_in - 0.5)


def data_sizes(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of arms that differ only in the number of training images, of which there are four or more."""
    curves = result.efficiency
    shown = curves and result.edition.study.plan.arms
    return plot.Plot("data_sizes", DATA_SIZES, lambda: _draw_data_sizes(result, curves)) if shown else None


def law_line(curve: Curve) -> dict[float, float]:
    """Returns the mean of a curve's power laws by number of images, from the least to the most tried; empty without."""
    least, most = min(curve.scores), max(curve.scores)
    sizes = [least * (most / least) ** (step / STEPS) for step in range(STEPS + 1)] if curve.laws else []
    return {size: fmean(law.at(size) for law in curve.laws.values()) for size in sizes}


def beside(curves: Sequence[Curve], number: int) -> float:
    """Returns the factor for the x of a curve's marks, so that marks of several curves stand beside each other.

    `number` is the place of the curve among `curves`.
    """
    sizes = sorted({size for curve in curves for size in curve.scores})
    narrowest = min(math.log(more / fewer) for fewer, more in pairwise(sizes))
    return math.exp(APART * narrowest * (number - (len(curves) - 1) / 2) / max(len(curves) - 1, 1))


def _draw_data_sizes(result: StudyResult, curves: Sequence[Curve]) -> Figure:
    palette, chance = plot.Palette.of(result), result.edition.study.base.data.chance("test")
    height = max(3.3, 0.19 * (len(curves) + 1))
    fig, axes = plot.one_panel(height)
    axes.set_xscale("log")
    lines = []
    for number, curve in enumerate(curves):
        color = palette.looks[curve.numbers[0]].color
        values = {size: [*scores.values.values()] for size, scores in curve.scores.items()}
        lines.append(Line(values, plot.Look(color), curve.name))
        law = law_line(curve)
        axes.plot([*law], [*law.values()], color=color, linewidth=1.2, alpha=0.8)
        for size, scores in curve.scores.items():
            x = size * beside(curves, number)
            if scores.interval:
                axes.plot([x, x], scores.interval, color=color, linewidth=1.6, alpha=0.55, solid_capstyle="butt")
            axes.plot([x], [scores.mean or 0.0], marker="_", markersize=9, color=color, markeredgewidth=1.8, zorder=3)
            for seed, value in sorted(scores.values.items()):
                diverged = seed in scores.diverged
                axes.plot([x], [value], marker="x" if diverged else "o", markersize=3.6 if diverged else 3,
                          color=plot.MUTED if diverged else color, markeredgewidth=1 if diverged else 0,
                          zorder=2.5)  # fmt: skip
    sizes = sorted({size for curve in curves for size in curve.scores})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="training images", ylabel=metric_words(result.edition.study.score.test))
    plot.chance_line(axes, chance, named=False)
    _name_lines(axes, lines, chance, height)
    return fig
