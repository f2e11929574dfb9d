"""Score against cost: the test score of each trial over its training time and over its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from service.analysis.format import metric_words
from service.reporting.figures.plot import FAINT, Label, Look, Palette, Plot, label_ends, panel_grid, sentences
from service.reporting.figures.rows import shown
from service.reporting.provenance import MIXED, WITHOUT_PARENTS, mixed_machines, parameters, train_time_unit, training_s

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


TIME = {
    "training time of a run": "The time is the median over a trial's completed runs.",
    "time of a training image": "The time is the median of turns that the arms took one after another.",
}
"""What the caption says of a time, by the words on its axis."""
DIFFERS = 1.1
"""Times of equal trainings differ by some percent, because programs share a machine."""


@dataclass(frozen=True)
class Axis:
    """One kind of cost. `of`: a trial's cost in the unit of the label."""

    label: str
    of: Callable[[TrialResult], float]


def cost(result: StudyResult) -> Plot | None:
    """Returns the figure; None if no two trials differ in a cost."""
    rows = [row for row in shown(result) if training_s(row) is not None]
    if not _axes(result, rows):
        return None
    return Plot("cost", _caption(result, rows), lambda: _draw(result, rows))


def _axes(result: StudyResult, rows: Sequence[TrialResult]) -> list[Axis]:
    """Returns the time of training, and the parameters: each where trials differ in it by more than chance would.

    The time is that of arms measured side by side, where it is known.
    """
    unit, seconds = train_time_unit(rows)
    costs = result.history.costs.arms
    time = Axis(f"training time of a run ({unit})", lambda row: (training_s(row) or 0.0) / seconds)
    if {row.name for row in rows} <= costs.keys():
        time = Axis("time of a training image (ms)", lambda row: 1000 * median(costs[row.name].train_s))
    kinds = [time, Axis("parameters", lambda row: float(parameters(row)))]
    values = {kind: [kind.of(row) for row in rows] for kind in kinds}
    return [kind for kind, known in values.items() if known and max(known) > DIFFERS * min(known)]


def _draw(result: StudyResult, rows: Sequence[TrialResult]) -> Figure:
    kinds = _axes(result, rows)
    across = len(kinds)
    height = max(2.6, 0.17 * len(rows))
    fig, panels = panel_grid(len(kinds), across, height)
    palette = Palette.of(result)
    for place, (axes, kind) in enumerate(zip(panels, kinds, strict=True)):
        axes.grid(axis="x", color=FAINT, linewidth=0.6)
        axes.margins(x=0.1)
        for row in rows:
            _draw_trial(axes, kind.of(row), row, palette[row])
        _lay_axis(axes, [kind.of(row) for row in rows], across > 1)
        axes.set_xlabel(kind.label)
        if place % across == 0:
            axes.set_ylabel(metric_words(result.edition.study.score.test))
    labels = [
        Label(_short(row), row.test.mean or 0.0, palette[row].color, strong=row in result.winners) for row in rows
    ]
    for place, axes in enumerate(panels):
        if (place + 1) % across == 0:
            label_ends(axes, labels, height - 0.5)
    return fig


def _short(row: TrialResult) -> str:
    """Returns a name that fits beside a panel."""
    names = {"confirmation": f"#{row.trial.number}", "rival_confirmation": f"#r{row.trial.number}"}
    return names.get(row.trial.role, row.name)


def _draw_trial(axes: Axes, x: float, row: TrialResult, look: Look) -> None:
    mean = row.test.mean or 0.0
    if row.test.interval:
        axes.plot([x, x], row.test.interval, color=look.color, linewidth=1.6, alpha=0.55)
    axes.plot([x], [mean], marker=look.marker, markersize=6, color=look.color, zorder=3)


def _lay_axis(axes: Axes, values: Sequence[float], small: bool) -> None:
    """Draws a logarithmic axis where the costs differ by more than ten times; round numbers either way."""
    if min(values) > 0 and max(values) > 10 * min(values):
        axes.set_xscale("log")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4 if small else 7))
    axes.xaxis.set_major_formatter(lambda value, _: _count(value))


def _count(value: float) -> str:
    """Returns a cost on an axis: `1.2 M`, `58 k`, `12.5`."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.6g}"


def _caption(result: StudyResult, rows: Sequence[TrialResult]) -> str:
    names = [axis.label.partition(" (")[0] for axis in _axes(result, rows)]
    timed = "parameters" not in names[:1]
    intervals = any(row.test.interval for row in rows)
    return sentences((
        f"The {metric_words(result.edition.study.score.test)} of each trial over the {' and the '.join(names)}"
        f"{', with the 95 % interval' if intervals else ''}.",
        TIME.get(names[0], "") if timed else "",
        WITHOUT_PARENTS if timed and result.of("parent") else "",
        MIXED if timed and mixed_machines(result) else "",
        "The best is in bold." if any(row in result.winners for row in rows) else "",
    ))  # fmt: skip
