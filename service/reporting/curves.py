"""Learning curves: one line a trial, the mean over its seeds with a band from the lowest to the highest.

A diverged seed is drawn at chance from then on, so that a line ends where the trial's score is.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from search_spaces.space import Integer, Real
from search_spaces.study import Search
from service.analysis.format import metric_words
from service.reporting.svg import MUTED, SERIES, apart, chance_line, figure

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult

Curve = dict[int, list[float]]
"""By epoch: the score of each seed."""
LABELLED = 12
"""How many lines can be labelled at their ends."""


def learning_curves(result: StudyResult) -> tuple[Figure, str] | None:
    """The figure and its caption; None before any epoch was measured."""
    rows = [(row, curve) for row in result.of("trial") if (curve := _curve(result, row))]
    if not rows:
        return None
    fig, (axes,) = figure(3.3)
    axes.set_xlabel("epoch")
    axes.set_ylabel(metric_words(result.edition.study.score.metric))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    chance = result.edition.study.base.data.chance
    colored = _by_value(fig, axes, result) if isinstance(result.edition.study.plan, Search) else None
    labelled = colored is None and len(rows) <= LABELLED
    best = {row.trial.number for row in result.winners}
    chance_line(axes, chance, named=not labelled)
    for place, (row, curve) in enumerate(rows):
        color = colored(row) if colored else SERIES[place % len(SERIES)]
        draw_line(axes, row, curve, color, best=row.trial.number in best)
    if labelled:
        label_ends(axes, rows, chance)
    return fig, _caption(result, colored is not None)


def _curve(result: StudyResult, row: TrialResult) -> Curve:
    """The validation score of each seed at each epoch; a diverged one continues at chance, a failed one is left out."""
    metric, chance = result.edition.study.score.metric, row.recipe.data.chance
    found: Curve = {}
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


def draw_line(axes: Axes, row: TrialResult, curve: Curve, color: Any, *, best: bool) -> None:
    """The mean over seeds with its band; a mark where the trial was not trained to its last epoch."""
    epochs, means = list(curve), [fmean(values) for values in curve.values()]
    if any(len(values) > 1 for values in curve.values()):
        low, high = [min(values) for values in curve.values()], [max(values) for values in curve.values()]
        axes.fill_between(epochs, low, high, color=color, alpha=0.13, linewidth=0)
    axes.plot(epochs, means, color=color, linewidth=2.4 if best else 1.3, zorder=3 if best else 2)
    if row.answer.status in ("stopped", "diverged"):
        marker = "v" if row.answer.status == "stopped" else "x"
        axes.plot(epochs[-1:], means[-1:], marker=marker, markersize=5, color=color, zorder=4)


def _by_value(fig: Figure, axes: Axes, result: StudyResult) -> Callable[[TrialResult], Any] | None:
    """A color for each trial by the first searched number, with its scale at the right; None without such a number."""
    plan = result.edition.study.plan
    assert isinstance(plan, Search)
    searched = [(path, d) for path, d in plan.space.domains.items() if isinstance(d, Real | Integer)]
    if not searched:
        return None
    path, domain = searched[0]
    logarithmic = isinstance(domain, Real) and domain.log
    norm = (LogNorm if logarithmic else Normalize)(domain.low, domain.high)
    shades = mpl.colormaps["viridis"](_steps(0.22, 0.9, 24))
    colors = mpl.colors.ListedColormap(shades)
    bar = fig.colorbar(ScalarMappable(norm, colors), ax=axes, pad=0.02, aspect=32)
    bar.outline.set_visible(False)
    if bar.solids is not None:
        bar.solids.set_edgecolor("face")
    bar.ax.tick_params(which="both", colors=MUTED, length=0)
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    bar.set_label(path, color=MUTED)
    return lambda row: colors(norm(row.value(path))) if row.value(path) is not None else MUTED


def _steps(low: float, high: float, count: int) -> list[float]:
    return [low + (high - low) * step / (count - 1) for step in range(count)]


def label_ends(axes: Axes, rows: list[tuple[TrialResult, Curve]], chance: float) -> None:
    """Each line's name at its end, moved apart where ends meet."""
    labels = [
        (row.name, fmean(list(curve.values())[-1]), SERIES[n % len(SERIES)]) for n, (row, curve) in enumerate(rows)
    ]
    labels.append(("chance", chance, MUTED))
    low, high = axes.get_ylim()
    places = apart([end for _, end, _ in labels], (high - low) * 0.055)
    for (name, _, color), place in zip(labels, places, strict=True):
        axes.annotate(name, (1, place), xycoords=("axes fraction", "data"), xytext=(4, 0), va="center",
                      textcoords="offset points", color=color, fontsize=8.5, annotation_clip=False)  # fmt: skip


def _caption(result: StudyResult, colored: bool) -> str:
    chosen = " The heavy line is the best trial." if result.winners else ""
    colors = " Colored by the searched value; a triangle was stopped there, a cross diverged." if colored else ""
    return f"Learning curves: mean over seeds, with a band from the lowest seed to the highest.{chosen}{colors}"
