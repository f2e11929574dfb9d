"""Learning curves: one line a trial, the mean over its seeds with a band from the lowest to the highest.

A diverged seed is drawn at chance from then on, so that a line ends where the trial's score is. The points of a search
are thin gray lines; its confirmed points stand out, on their fresh seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from search_spaces.study import Ablation
from search_spaces.words import plural
from service.analysis.format import metric_words
from service.reporting.figures.labels import Label, chance_label, label_ends
from service.reporting.figures.palette import GRAY, Look, Palette
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import chance_line, one_panel

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult

Values = dict[int, list[float]]
"""By epoch, or by side of images: the score of each seed."""
ENDS = {"stopped": "v", "diverged": "x"}
"""What marks the end of a line that was not trained to its last epoch."""


@dataclass(frozen=True)
class Line:
    """One trial's line. `end`: how the trial ended, where it was not trained to its last epoch; no name, no label."""

    values: Values
    look: Look
    name: str = ""
    strong: bool = False
    end: str = ""


def learning_curves(result: StudyResult) -> Plot | None:
    """The figure; None before any epoch was measured."""
    lines = curve_lines(result)
    return Plot("curves", _caption(result, lines), lambda: _draw(result, lines)) if lines else None


def curve_lines(result: StudyResult) -> list[Line]:
    """The lines, those without a name first, so that they lie under the others."""
    palette = Palette.of(result)
    found = []
    for row in [*result.of("trial"), *result.confirmed]:
        values = _values(result, row)
        if values:
            fresh = row.trial.role == "confirmation"
            own = palette.named(row) and (fresh or not result.confirmed)
            look, called = (palette[row], _name(result, row)) if own else (GRAY, "")
            end = row.answer.status if row.answer.status in ENDS else ""
            found.append(Line(values, look, called, row in result.winners, end))
    return sorted(found, key=lambda line: bool(line.name))


def _name(result: StudyResult, row: TrialResult) -> str:
    return row.name if isinstance(result.edition.study.plan, Ablation) else f"#{row.trial.number}"


def _values(result: StudyResult, row: TrialResult) -> Values:
    """The validation score of each seed at each epoch; a diverged one continues at chance, a failed one is left out."""
    metric, chance = result.edition.study.score.metric, row.recipe.data.chance("val")
    found: Values = {}
    for run in row.runs.values():
        for epoch, values in run.curve.items():
            if metric in values and run.state.status != "failed":
                found.setdefault(epoch, []).append(values[metric])
    last = max(found, default=0)
    for run in row.runs.values():
        if run.state.status == "diverged" and len(row.validation.values) > 1:
            for epoch in range(run.epochs + 1, last + 1):
                found.setdefault(epoch, []).append(chance)
    return dict(sorted(found.items()))


def _draw(result: StudyResult, lines: Sequence[Line]) -> Figure:
    score = metric_words(result.edition.study.score.metric)
    fig, axes = draw_lines(lines, result.edition.study.base.data.chance("val"))
    axes.set_xlabel("epoch")
    axes.set_ylabel(score)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return fig


def draw_lines(lines: Sequence[Line], chance: float) -> tuple[Figure, Axes]:
    """Lines with their names at their ends."""
    named = [line for line in lines if line.name]
    height = max(3.3, 0.19 * (len(named) + 1))
    fig, axes = one_panel(height)
    draw_gray(axes, [line for line in lines if not line.name])
    for line in named:
        draw_line(axes, line)
    chance_line(axes, chance, named=False)
    name_lines(axes, named, chance, height)
    return fig, axes


def name_lines(axes: Axes, named: Sequence[Line], chance: float, height_in: float) -> None:
    """The names of lines and of chance beside their ends."""
    labels = [Label(line.name, fmean(list(line.values.values())[-1]), line.look.color, line.strong) for line in named]
    label_ends(axes, [*labels, chance_label(chance)], height_in - 0.5)


def draw_gray(axes: Axes, lines: Sequence[Line]) -> None:
    """The lines without a name, all together: there may be hundreds."""
    if not lines:
        return
    axes.add_collection(LineCollection(
        [[(place, fmean(values)) for place, values in line.values.items()] for line in lines],
        colors=GRAY.color, linewidths=0.8, alpha=0.75, zorder=1.5,
    ))  # fmt: skip
    for end, marker in ENDS.items():
        last = [list(line.values.items())[-1] for line in lines if line.end == end]
        if last:
            axes.plot([place for place, _ in last], [fmean(values) for _, values in last], linestyle="", marker=marker,
                      markersize=3.5, color=GRAY.color)  # fmt: skip


def draw_line(axes: Axes, line: Line) -> None:
    """The mean over seeds with its band; a mark where the trial was not trained to its last epoch."""
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
    """The sentence on bands, where any is drawn."""
    drawn = any(line.name and any(len(values) > 1 for values in line.values.values()) for line in lines)
    return "mean over seeds, with a band from the lowest seed to the highest" if drawn else "one seed a line"


def _caption(result: StudyResult, lines: Sequence[Line]) -> str:
    ends, gray = {line.end for line in lines}, any(not line.name for line in lines)
    fresh = " on fresh seeds" if result.confirmed and any(line.name for line in lines) else ""
    open = sum(run.state.status == "running" and bool(run.curve) for row in result.rows for run in row.runs.values())
    reached = "not ended; a line is the mean of the seeds that reached an epoch"
    return sentences((
        f"Learning curves: {band(lines)}.",
        f"In color the confirmed points{fresh}; in gray the points of the search." if gray and fresh else "",
        "A triangle was stopped there." if "stopped" in ends else "",
        "A cross diverged there." if "diverged" in ends else "",
        f"{plural(open, 'run')} {'has' if open == 1 else 'have'} {reached}." if open else "",
        "The heavy line is the best trial." if any(line.strong for line in lines) else "",
    ))  # fmt: skip
