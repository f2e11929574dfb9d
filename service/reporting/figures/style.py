"""The look of every figure: quiet axes, and colors that color-blind readers distinguish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from search_spaces.roles import RIVALS
from search_spaces.study import Ablation
from service.analysis.format import TRIAL_COLORS

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


INK, MUTED, FAINT, PAPER, POINT = "#1d232b", "#68707b", "#dadee3", "#fefefe", "#8b939e"
STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "text.parse_math": False,
}


WIDTH_IN = 6.9
"""The width of every figure: a printed page's text."""


def empty_figure(height_in: float) -> Figure:
    """A figure without a panel."""
    fig = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    fig.patch.set_alpha(0)
    return fig


def one_panel(height_in: float) -> tuple[Figure, Axes]:
    """A figure with one quiet panel."""
    fig = empty_figure(height_in)
    axes = fig.add_subplot()
    quiet(axes)
    return fig, axes


def panel_grid(count: int, columns: int, panel_in: float) -> tuple[Figure, list[Axes]]:
    """A figure with quiet panels in rows, which share their y axis. Units: `panel_in` is the height of a row."""
    rows = -(-count // columns)
    fig = empty_figure(panel_in * rows + 0.35)
    grid = fig.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.remove()
    for axes in grid[:count]:
        quiet(axes)
    return fig, list(grid[:count])


def quiet(axes: Axes) -> None:
    """Removes every line that shows no number."""
    axes.patch.set_alpha(0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(which="both", colors=MUTED, length=0, pad=5)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_color(MUTED)
    axes.yaxis.label.set_color(MUTED)


def chance_line(axes: Axes, chance: float, *, vertical: bool = False, named: bool = True) -> None:
    """The score of a model that has learnt nothing, named at the line's end."""
    at: dict[str, Any]
    style: dict[str, Any] = {"color": MUTED, "linewidth": 0.8, "linestyle": (0, (1, 2.2))}
    small: dict[str, Any] = {"textcoords": "offset points", "color": MUTED, "fontsize": 7.5, "annotation_clip": False}
    if vertical:
        axes.axvline(chance, **style)
        at = {
            "xy": (chance, 1),
            "xycoords": ("data", "axes fraction"),
            "xytext": (0, 3),
            "ha": "center",
            "va": "bottom",
        }
    else:
        axes.axhline(chance, **style)
        at = {"xy": (1, chance), "xycoords": ("axes fraction", "data"), "xytext": (4, 0), "ha": "left", "va": "center"}
    if named:
        axes.annotate("chance", **at, **small)


DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.6, 1.4)), (0, (6, 1.5, 1.5, 1.5)))
MARKERS = ("o", "s", "^", "D")


@dataclass(frozen=True)
class Look:
    """How a trial is drawn."""

    color: str
    dash: Any = "-"
    marker: str = "o"


GRAY = Look(POINT)
"""A point of a search that was not confirmed."""


@dataclass(frozen=True)
class Palette:
    """The look of each trial, by its number. A point and its confirmation look alike; random points are gray."""

    looks: dict[int, Look]

    @classmethod
    def of(cls, result: StudyResult) -> Palette:
        """The looks of a study's trials; of a search without a confirmation, the best so far has a color."""
        if isinstance(result.edition.study.plan, Ablation):
            if result.by_size:
                return cls(_by_curve(result))
            numbers = [row.trial.number for row in result.of("trial")]
        else:
            numbers = sorted(result.history.confirms or [row.trial.number for row in result.winners])
        return cls({number: _look(place) for place, number in enumerate(numbers)})

    def __getitem__(self, row: TrialResult) -> Look:
        return self.looks.get(row.trial.number, GRAY) if row.trial.role not in RIVALS else GRAY

    def named(self, row: TrialResult) -> bool:
        """Whether a trial has a color of its own."""
        return row.trial.number in self.looks and row.trial.role not in RIVALS


def _look(place: int) -> Look:
    again = place // len(TRIAL_COLORS)
    return Look(TRIAL_COLORS[place % len(TRIAL_COLORS)], DASHES[again % len(DASHES)], MARKERS[again % len(MARKERS)])


def _by_curve(result: StudyResult) -> dict[int, Look]:
    """A color a curve; arms of no curve have one each. Sixteen looks of a color differ."""
    numbers = [[row.trial.number for row in rows] for rows in result.by_size]
    inside = {number for some in numbers for number in some}
    numbers += [[row.trial.number] for row in result.of("trial") if row.trial.number not in inside]
    numbers.sort(key=min)
    most = max(map(len, numbers))
    looks = {}
    for place, some in enumerate(numbers):
        for step, number in enumerate(some, place // len(TRIAL_COLORS) * most):
            marker = MARKERS[(step + step // len(DASHES)) % len(MARKERS)]
            looks[number] = Look(TRIAL_COLORS[place % len(TRIAL_COLORS)], DASHES[step % len(DASHES)], marker)
    return looks
