"""Learning curves: one line a trial, the mean over its seeds with a band from the lowest to the highest.

A diverged seed is drawn at chance from then on, so that a line ends where the trial's score is. The points of a search
are thin gray lines; its confirmed points stand out, on their fresh seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from search_spaces.study import Ablation
from search_spaces.words import plural
from service.analysis.data_efficiency import Curve
from service.analysis.format import metric_words
from service.analysis.lengths import length_scores
from service.analysis.statistics import FEWEST, Scores
from service.reporting.figures import plot
from service.reporting.figures.rows import name, shown

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


Values = dict[int, list[float]]
"""By epoch, or by side of images: the score of each seed."""
ENDS = {"stopped": "v", "raced": "v", "diverged": "x"}
"""What marks the end of a line that lacks epochs, or the seeds that a trial out of the race does not run."""


@dataclass(frozen=True)
class Line:
    """One trial's line. `end`: one of `ENDS`, if the trial lacks epochs or seeds; no name, no label."""

    values: Values
    look: plot.Look
    name: str = ""
    strong: bool = False
    end: str = ""


def learning_curves(result: StudyResult) -> plot.Plot | None:
    """Returns the figure; None before any epoch was measured, and where the scores at each length say more."""
    lines = [] if result.lengths else curve_lines(result)
    return plot.Plot("curves", _caption_curves(result, lines), lambda: _draw_curves(result, lines)) if lines else None


def curve_lines(result: StudyResult) -> list[Line]:
    """Returns the lines, those without a name first, so that they lie under the others."""
    palette = plot.Palette.of(result)
    lines = []
    arms = [*result.of("trial"), *result.confirmed]
    begun = any(run.curve for row in arms for run in row.runs.values())
    for row in arms if begun else result.of("tuning"):
        values = _values_curves(result, row)
        if values:
            fresh = row.trial.role == "confirmation"
            own = row.trial.role != "tuning" and palette.named(row) and (fresh or not result.confirmed)
            look, called = (palette[row], _name(result, row)) if own else (plot.GRAY, "")
            end = "raced" if row.answer.raced else row.answer.status if row.answer.status in ENDS else ""
            lines.append(Line(values, look, called, row in result.winners, end))
    return sorted(lines, key=lambda line: bool(line.name))


def _name(result: StudyResult, row: TrialResult) -> str:
    return row.name if isinstance(result.edition.study.plan, Ablation) else f"#{row.trial.number}"


def _values_curves(result: StudyResult, row: TrialResult) -> Values:
    """Returns the validation score of each seed at each epoch.

    A diverged one continues at chance, a failed one is left out.
    """
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
    rows = [row for row in result.of("trial") if row.recipe.optimizer.lengths]
    values = {row.name: {at: [*own.values()] for at, own in length_scores(row).items()} for row in rows}
    palette = plot.Palette.of(result)
    lines = [
        Line(values[row.name], palette[row], row.name, row in result.winners, "raced" if row.answer.raced else "")
        for row in rows
        if values[row.name]
    ]
    return plot.Plot("lengths", _caption_lengths(lines), lambda: _draw_lengths(result, lines)) if lines else None


def _draw_lengths(result: StudyResult, lines: Sequence[Line]) -> Figure:
    fig, axes = draw_lines(lines, result.edition.study.base.data.chance("val"))
    axes.set_xscale("log")
    axes.set(xlabel="epochs of training", ylabel=metric_words(result.edition.study.score.metric))
    for line in lines:
        places = [at for at, scores in line.values.items() for _ in scores]
        scores = [score for own in line.values.values() for score in own]
        axes.plot(places, scores, linestyle="", marker="o", markersize=2.5, color=line.look.color, alpha=0.6)
    lengths = sorted({at for line in lines for at in line.values})
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.xaxis.set_minor_locator(NullLocator())
    return fig


def _caption_lengths(lines: Sequence[Line]) -> str:
    raced = "A triangle left the race after the seeds of its line." if any(line.end for line in lines) else ""
    return plot.sentences((
        "Score over the length of training: at each length that of a model whose rate has fallen, as if its training "
        f"ended there; {band(lines)}, and a dot a seed.",
        raced,
        heavy(lines),
    ))  # fmt: skip


def _draw_curves(result: StudyResult, lines: Sequence[Line]) -> Figure:
    score = metric_words(result.edition.study.score.metric)
    fig, axes = draw_lines(lines, result.edition.study.base.data.chance("val"))
    axes.set_xlabel("trained epochs")
    axes.set_ylabel(score)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return fig


def draw_lines(lines: Sequence[Line], chance: float) -> tuple[Figure, Axes]:
    """Returns lines with their names at their ends."""
    named = [line for line in lines if line.name]
    height = max(3.3, 0.19 * (len(named) + 1))
    fig, axes = plot.one_panel(height)
    draw_gray(axes, [line for line in lines if not line.name])
    for line in named:
        draw_line(axes, line)
    plot.chance_line(axes, chance, named=False)
    name_lines(axes, named, chance, height)
    return fig, axes


def name_lines(axes: Axes, named: Sequence[Line], chance: float, height_in: float) -> None:
    """Draws the names of lines and of chance beside their ends."""
    labels = [
        plot.Label(line.name, fmean(list(line.values.values())[-1]), line.look.color, line.strong) for line in named
    ]
    plot.label_ends(axes, [*labels, plot.chance_label(chance)], height_in - 0.5)


def draw_gray(axes: Axes, lines: Sequence[Line]) -> None:
    """Draws the lines without a name, all together: there may be hundreds."""
    if not lines:
        return
    axes.add_collection(LineCollection(
        [[(place, fmean(values)) for place, values in line.values.items()] for line in lines],
        colors=plot.GRAY.color, linewidths=0.8, alpha=0.75, zorder=1.5,
    ))  # fmt: skip
    for end, marker in ENDS.items():
        last = [list(line.values.items())[-1] for line in lines if line.end == end]
        if last:
            axes.plot([place for place, _ in last], [fmean(values) for _, values in last], linestyle="", marker=marker,
                      markersize=3.5, color=plot.GRAY.color)  # fmt: skip


def draw_line(axes: Axes, line: Line) -> None:
    """Draws the mean over seeds with its band; a mark where the trial lacks epochs or seeds."""
    places, means = list(line.values), [fmean(values) for values in line.values.values()]
    color = line.look.color
    if any(len(values) > 1 for values in line.values.values()):
        low, high = [min(values) for values in line.values.values()], [max(values) for values in line.values.values()]
        axes.fill_between(places, low, high, color=color, alpha=0.13, linewidth=0)
    axes.plot(places, means, color=color, linestyle=line.look.dash, linewidth=2.6 if line.strong else 1.4,
              marker="o" if len(places) == 1 else None, markersize=3, zorder=3 if line.strong else 2)  # fmt: skip
    if line.end:
        axes.plot(places[-1:], means[-1:], marker=ENDS[line.end], markersize=5, color=color, zorder=4)


def band(lines: Sequence[Line]) -> str:
    """Returns the sentence on bands, where any is drawn."""
    drawn = any(line.name and any(len(values) > 1 for values in line.values.values()) for line in lines)
    return "mean over seeds, with a band from the lowest seed to the highest" if drawn else "one seed a line"


def _caption_curves(result: StudyResult, lines: Sequence[Line]) -> str:
    ends, gray = {line.end for line in lines}, any(not line.name for line in lines)
    fresh = " on fresh seeds" if result.confirmed and any(line.name for line in lines) else ""
    open = sum(run.state.status == "running" and bool(run.curve) for row in result.rows for run in row.runs.values())
    triangles = [
        "was stopped there" if "stopped" in ends else "",
        "left the race after the seeds of its line" if "raced" in ends else "",
    ]
    reached = "not ended; a line is the mean of the seeds that reached an epoch"
    return plot.sentences((
        f"Learning curves: {band(lines)}.",
        f"In color the confirmed points{fresh}; in gray the points of the search." if gray and fresh else "",
        "In gray the trials that tune the arms."
        if isinstance(result.edition.study.plan, Ablation) and all(not line.name for line in lines) else "",
        f"A triangle {' or '.join(filter(None, triangles))}." if any(triangles) else "",
        "A cross diverged there." if "diverged" in ends else "",
        f"{plural(open, 'run')} {'has' if open == 1 else 'have'} {reached}." if open else "",
        heavy(lines),
    ))  # fmt: skip


def heavy(lines: Sequence[Line]) -> str:
    """Returns what heavy lines are; empty if there are none."""
    best = sum(line.strong for line in lines)
    return ("", "The heavy line is the best trial.", "The heavy lines are the best trials, which tie.")[min(best, 2)]


def size_curves(result: StudyResult) -> plot.Plot | None:
    """Returns the figure; None if no trial was tested at another side."""
    rows = [row for row in shown(result) if any(at.values for at in row.test_sizes.values())]
    if not rows:
        return None
    palette = plot.Palette.of(result)
    lines = [Line(_values_image_sizes(row), palette[row], name(result, row), row in result.winners) for row in rows]
    own = sorted({_own(row) for row in rows})
    return plot.Plot("sides", _caption_image_sizes(lines, own), lambda: _draw_image_sizes(result, lines, own))


def _draw_image_sizes(result: StudyResult, lines: Sequence[Line], own: Sequence[int]) -> Figure:
    fig, axes = draw_lines(lines, result.edition.study.base.data.chance("test"))
    axes.set_xlabel("side of the test images in pixels")
    axes.set_ylabel(metric_words(result.edition.study.score.test))
    axes.set_xticks(sorted({side for line in lines for side in line.values}))
    for side in own:
        axes.axvline(side, color=plot.MUTED, linewidth=0.8)
    return fig


def _caption_image_sizes(lines: Sequence[Line], own: Sequence[int]) -> str:
    return plot.sentences((
        "Models tested at sides of images that they were not trained for, without fine-tuning: " + band(lines) + ".",
        f"{'The upright line is' if len(own) == 1 else 'Upright lines are'} the side of the training images.",
        heavy(lines),
    ))  # fmt: skip


def _own(row: TrialResult) -> int:
    return row.recipe.data.size[1]


def _values_image_sizes(row: TrialResult) -> Values:
    """Returns the test score of each seed, by side."""
    scores = {_own(row): row.test, **row.test_sizes}
    return {side: list(at.values.values()) for side, at in sorted(scores.items()) if at.values}


STEPS = 80
"""Of how many straight pieces a law is drawn."""
APART = 0.25
"""Over which share of the space between two sizes the marks of one size are spread, so that they do not overlap."""


def data_sizes(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of an ablation.

    None if no arms differ in the number of training images alone, at four or more.
    """
    curves = result.efficiency
    if not curves or not isinstance(result.edition.study.plan, Ablation):
        return None
    return plot.Plot("data_sizes", _caption_data_sizes(result, curves), lambda: _draw_data_sizes(result, curves))


def law_line(curve: Curve) -> dict[float, float]:
    """Returns the mean of the seeds' power laws, by the number of images within those tried; empty without laws."""
    least, most = min(curve.scores), max(curve.scores)
    sizes = [least * (most / least) ** (step / STEPS) for step in range(STEPS + 1)] if curve.laws else []
    return {size: fmean(law.at(size) for law in curve.laws.values()) for size in sizes}


def beside(curves: Sequence[Curve], place: int) -> float:
    """Returns the factor by which the marks of a curve stand right of their number of images."""
    sizes = sorted({size for curve in curves for size in curve.scores})
    narrowest = min(math.log(more / fewer) for fewer, more in pairwise(sizes))
    return math.exp(APART * narrowest * (place - (len(curves) - 1) / 2) / max(len(curves) - 1, 1))


def _draw_data_sizes(result: StudyResult, curves: Sequence[Curve]) -> Figure:
    palette, chance = plot.Palette.of(result), result.edition.study.base.data.chance("test")
    lines = [_line(curve, plot.Look(palette.looks[curve.numbers[0]].color)) for curve in curves]
    height = max(3.3, 0.19 * (len(curves) + 1))
    fig, axes = plot.one_panel(height)
    axes.set_xscale("log")
    for place, (curve, line) in enumerate(zip(curves, lines, strict=True)):
        law = law_line(curve)
        axes.plot([*law], [*law.values()], color=line.look.color, linewidth=1.2, alpha=0.8)
        for size, scores in curve.scores.items():
            _marks(axes, size * beside(curves, place), scores, line.look.color)
    sizes = sorted({size for curve in curves for size in curve.scores})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="training images", ylabel=metric_words(result.edition.study.score.test))
    plot.chance_line(axes, chance, named=False)
    name_lines(axes, lines, chance, height)
    return fig


def _line(curve: Curve, look: plot.Look) -> Line:
    """Returns what gives a curve its name: the seeds' scores by size."""
    return Line({size: [*scores.values.values()] for size, scores in curve.scores.items()}, look, curve.name)


def _marks(axes: Axes, at: float, scores: Scores, color: str) -> None:
    """Draws the mean of one size as a bar with its interval, and a dot a seed; a cross where it diverged."""
    if scores.interval:
        axes.plot([at, at], scores.interval, color=color, linewidth=1.6, alpha=0.55, solid_capstyle="butt")
    axes.plot([at], [scores.mean or 0.0], marker="_", markersize=9, color=color, markeredgewidth=1.8, zorder=3)
    for seed, value in sorted(scores.values.items()):
        fallen = seed in scores.diverged
        axes.plot([at], [value], marker="x" if fallen else "o", markersize=3.6 if fallen else 3,
                  color=plot.MUTED if fallen else color, markeredgewidth=1 if fallen else 0, zorder=2.5)  # fmt: skip


def _caption_data_sizes(result: StudyResult, curves: Sequence[Curve]) -> str:
    scores = [score for curve in curves for score in curve.scores.values()]
    interval = " with its 95 % interval" if any(score.interval for score in scores) else ""
    laws = [curve for curve in curves if curve.laws]
    return plot.sentences((
        f"The {metric_words(result.edition.study.score.test)} over the number of training images: a bar at the "
        f"mean over seeds{interval}, and a dot a seed.",
        "The line is the mean of the power laws that were fitted to the seeds." if laws else "",
        "No line where no seed has a score at every size." if laws and len(laws) < len(curves) else "",
        f"No interval for fewer than {FEWEST} seeds." if any(score.interval is None for score in scores) else "",
        "A cross is a diverged seed, which counts at chance." if any(score.diverged for score in scores) else "",
        "Marks of one size stand beside each other." if len(curves) > 1 else "",
    ))  # fmt: skip
