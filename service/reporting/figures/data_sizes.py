"""Data efficiency: the test score over the number of training images, a curve an encoding, with its power law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from search_spaces.study import Ablation
from service.analysis.estimates.data_efficiency import Curve
from service.analysis.format import metric_words
from service.analysis.statistics import FEWEST, Scores
from service.reporting.figures.curves import Line, name_lines
from service.reporting.figures.palette import Look, Palette
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import MUTED, chance_line, one_panel

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

STEPS = 80
"""Of how many straight pieces a law is drawn."""
APART = 0.25
"""Over which share of the space between two sizes the marks of one size are spread, so that they do not overlap."""


def data_sizes(result: StudyResult) -> Plot | None:
    """The figure of an ablation; None where no arms differ in the number of training images alone, at four or more."""
    found = result.efficiency
    if not found or not isinstance(result.edition.study.plan, Ablation):
        return None
    return Plot("data_sizes", _caption(result, found), lambda: _draw(result, found))


def law_line(curve: Curve) -> dict[float, float]:
    """By the number of images, within those that were tried: the mean of the seeds' power laws; empty without laws."""
    least, most = min(curve.scores), max(curve.scores)
    sizes = [least * (most / least) ** (step / STEPS) for step in range(STEPS + 1)] if curve.laws else []
    return {size: fmean(law.at(size) for law in curve.laws.values()) for size in sizes}


def beside(found: Sequence[Curve], place: int) -> float:
    """The factor by which the marks of a curve stand right of their number of images."""
    sizes = sorted({size for curve in found for size in curve.scores})
    narrowest = min(math.log(more / fewer) for fewer, more in pairwise(sizes))
    return math.exp(APART * narrowest * (place - (len(found) - 1) / 2) / max(len(found) - 1, 1))


def _draw(result: StudyResult, found: Sequence[Curve]) -> Figure:
    palette, chance = Palette.of(result), result.edition.study.base.data.chance("test")
    lines = [_line(curve, Look(palette.looks[curve.numbers[0]].color)) for curve in found]
    height = max(3.3, 0.19 * (len(found) + 1))
    fig, axes = one_panel(height)
    axes.set_xscale("log")
    for place, (curve, line) in enumerate(zip(found, lines, strict=True)):
        law = law_line(curve)
        axes.plot([*law], [*law.values()], color=line.look.color, linewidth=1.2, alpha=0.8)
        for size, scores in curve.scores.items():
            _marks(axes, size * beside(found, place), scores, line.look.color)
    sizes = sorted({size for curve in found for size in curve.scores})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="training images", ylabel=metric_words(result.edition.study.score.test))
    chance_line(axes, chance, named=False)
    name_lines(axes, lines, chance, height)
    return fig


def _line(curve: Curve, look: Look) -> Line:
    """What gives a curve its name: the seeds' scores by size."""
    return Line({size: [*scores.values.values()] for size, scores in curve.scores.items()}, look, curve.name)


def _marks(axes: Axes, at: float, scores: Scores, color: str) -> None:
    """The mean of one size as a bar with its interval, and a dot a seed; a cross where it diverged."""
    if scores.interval and scores.uniform:
        axes.plot([at, at], scores.interval, color=color, linewidth=1.6, alpha=0.55, solid_capstyle="butt")
    axes.plot([at], [scores.mean or 0.0], marker="_", markersize=9, color=color, markeredgewidth=1.8, zorder=3)
    for seed, value in sorted(scores.values.items()):
        fallen = seed in scores.diverged
        axes.plot([at], [value], marker="x" if fallen else "o", markersize=3.6 if fallen else 3,
                  color=MUTED if fallen else color, markeredgewidth=1 if fallen else 0, zorder=2.5)  # fmt: skip


def _caption(result: StudyResult, found: Sequence[Curve]) -> str:
    scores = [one for curve in found for one in curve.scores.values()]
    interval = " with its 95 % interval" if any(one.interval and one.uniform for one in scores) else ""
    laws = [curve for curve in found if curve.laws]
    return sentences((
        f"The {metric_words(result.edition.study.score.test)} over the number of training images: a bar at the "
        f"mean over seeds{interval}, and a dot a seed.",
        "The line is the mean of the power laws that were fitted to the seeds." if laws else "",
        "No line where no seed has a score at every size." if laws and len(laws) < len(found) else "",
        f"No interval for fewer than {FEWEST} seeds." if any(one.interval is None for one in scores) else "",
        "No interval where some seeds do not learn." if any(not one.uniform for one in scores) else "",
        "A cross is a diverged seed, which counts at chance." if any(one.diverged for one in scores) else "",
        "Marks of one size stand beside each other." if len(found) > 1 else "",
    ))  # fmt: skip
