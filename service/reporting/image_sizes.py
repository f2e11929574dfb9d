"""The test score over sides of images: a line a trial, trained at one side and tested at several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from service.analysis.format import metric_words
from service.reporting.curves import LABELLED, draw_line, label_ends
from service.reporting.svg import MUTED, SERIES, chance_line, figure

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


def size_curves(result: StudyResult) -> tuple[Figure, str] | None:
    """The figure and its caption; None where no trial was tested at another side."""
    tested = [row for row in result.confirmed or result.of("trial") if any(at.values for at in row.test_sizes.values())]
    rows = [(row, _curve(row)) for row in tested]
    if not rows:
        return None
    fig, (axes,) = figure(3.3)
    axes.set_xlabel("side of the test images in pixels")
    axes.set_ylabel(metric_words(result.edition.study.score.test))
    axes.set_xticks(sorted({side for _, curve in rows for side in curve}))
    for own in sorted({_own(row) for row in tested}):
        axes.axvline(own, color=MUTED, linewidth=0.8)
    labelled = len(rows) <= LABELLED
    chance = result.edition.study.base.data.chance
    chance_line(axes, chance, named=not labelled)
    for place, (row, curve) in enumerate(rows):
        draw_line(axes, row, curve, SERIES[place % len(SERIES)], best=row in result.winners)
    if labelled:
        label_ends(axes, rows, chance)
    return fig, _CAPTION


_CAPTION = (
    "Models tested at sides of images that they were not trained for, without fine-tuning: mean over seeds, with a "
    "band from the lowest seed to the highest. The upright line is the training's own side; the heavy line is the "
    "best trial."
)


def _own(row: TrialResult) -> int:
    return row.recipe.data.size[1]


def _curve(row: TrialResult) -> dict[int, list[float]]:
    """By side: the test score of each seed."""
    scores = {_own(row): row.test, **row.test_sizes}
    return {side: list(at.values.values()) for side, at in sorted(scores.items()) if at.values}
