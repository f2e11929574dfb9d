"""The best trial class by class: what its models take each class for, and how accurate they are on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from search_spaces.words import plural, quoted
from service.analysis.answers import Answers
from service.analysis.format import TRIAL_COLORS
from service.reporting.figures import plot
from service.reporting.figures.rows import name

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

MOST, WRITTEN = 20, 8
"""How many classes have a row, those with the lowest accuracy, and of up to how many each share stands in its cell."""
ROW_IN, LETTERS = 0.27, 18
"""The height of a row in inches, and how many letters of a class's name are shown."""
RIGHT, WRONG = TRIAL_COLORS[:2]


def by_class(result: StudyResult) -> plot.Plot | None:
    """Returns the figure; None if no trial is best, or if it is not kept what its models answer."""
    best = result.best
    answers = Answers.of(best) if best else None
    if best is None or answers is None:
        return None
    tested = sorted(np.unique(answers.targets).tolist(), key=lambda number: -(answers.of_class(number).mean or 0.0))
    lost, interval = len(answers.diverged), answers.of_class(tested[0]).interval
    caption = plot.sentences((
        f"A row is the test images of a class, and the {plural(len(answers.predicted), 'model')} of "
        f"{quoted(name(result, best))}. Left: the share that they take for the class of the column; blue is right.",
        f"Right: the accuracy{', with its 95 % interval for this class alone' if interval else ''}.",
        f"{plural(lost, 'seed')} diverged: at chance on the right, not on the left." if lost else "",
        f"Shown are the {MOST} classes of {len(tested):,} with the lowest accuracy." if len(tested) > MOST else "",
    ))  # fmt: skip
    return plot.Plot("classes", caption, lambda: _draw(answers, tested[-MOST:]))


def _draw(answers: Answers, classes: Sequence[int]) -> Figure:
    fig = plot.empty_figure(1.1 + ROW_IN * len(classes))
    matrix, accuracy = fig.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    for axes in (matrix, accuracy):
        plot.quiet(axes)
        axes.grid(visible=False)
        axes.spines[["left", "bottom"]].set_visible(False)
    _draw_confusion(matrix, answers, classes)
    for place, number in enumerate(classes):
        scores = answers.of_class(number)
        if scores.interval:
            accuracy.plot(scores.interval, [place] * 2, color=RIGHT, linewidth=2.2, alpha=0.6, solid_capstyle="butt")
        accuracy.plot([scores.mean], [place], marker="o", color=RIGHT, markersize=6, zorder=4)
    accuracy.grid(axis="x", color=plot.FAINT, linewidth=0.6)
    accuracy.set(xlim=(-0.02, 1.02), ylim=(len(classes) - 0.5, -0.5), xlabel="accuracy on the class")
    return fig


def _draw_confusion(axes: Axes, answers: Answers, classes: Sequence[int]) -> None:
    for (row, column), share in np.ndenumerate(answers.confusion()[np.ix_(classes, classes)]):
        color = RIGHT if row == column else WRONG
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=color, alpha=0.75 * share, linewidth=0))
        if len(classes) <= WRITTEN:
            axes.text(column, row, f"{share:.2f}", ha="center", va="center", color=plot.INK, fontsize=8)
    names = [answers.classes[number][:LETTERS] for number in classes]
    upright = len(names) > WRITTEN or max(map(len, names)) > 8
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_yticks(range(len(names)), names, color=plot.INK)
    axes.set_xticks(range(len(names)), names, rotation=90 if upright else 0, color=plot.INK)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
