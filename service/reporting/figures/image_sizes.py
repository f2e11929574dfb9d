"""The test score over sides of images: a line a trial, trained at one side and tested at several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from service.analysis.format import metric_words
from service.reporting.figures.curves import Line, Values, band, draw_lines
from service.reporting.figures.dots import name, shown
from service.reporting.figures.palette import Palette
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import MUTED

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


def size_curves(result: StudyResult) -> Plot | None:
    """The figure; None where no trial was tested at another side."""
    rows = [row for row in shown(result) if any(at.values for at in row.test_sizes.values())]
    if not rows:
        return None
    palette = Palette.of(result)
    lines = [Line(_values(row), palette[row], name(result, row), row in result.winners) for row in rows]
    own = sorted({_own(row) for row in rows})
    return Plot("sides", _caption(lines, own), lambda: _draw(result, lines, own))


def _draw(result: StudyResult, lines: Sequence[Line], own: Sequence[int]) -> Figure:
    fig, axes = draw_lines(lines, result.edition.study.base.data.chance("test"))
    axes.set_xlabel("side of the test images in pixels")
    axes.set_ylabel(metric_words(result.edition.study.score.test))
    axes.set_xticks(sorted({side for line in lines for side in line.values}))
    for side in own:
        axes.axvline(side, color=MUTED, linewidth=0.8)
    return fig


def _caption(lines: Sequence[Line], own: Sequence[int]) -> str:
    return sentences((
        "Models tested at sides of images that they were not trained for, without fine-tuning: " + band(lines) + ".",
        f"{'The upright line is' if len(own) == 1 else 'Upright lines are'} the side of the training images.",
        "The heavy line is the best trial." if any(line.strong for line in lines) else "",
    ))  # fmt: skip


def _own(row: TrialResult) -> int:
    return row.recipe.data.size[1]


def _values(row: TrialResult) -> Values:
    """By side: the test score of each seed."""
    scores = {_own(row): row.test, **row.test_sizes}
    return {side: list(at.values.values()) for side, at in sorted(scores.items()) if at.values}
