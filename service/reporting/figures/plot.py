"""Defines what a figure is, writes figures as SVG and PDF, and gives all the same look: axes, colors and names."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patheffects import Normal
from matplotlib.text import Text

from search_spaces.roles import RIVALS
from service.analysis.format import TRIAL_COLORS
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
"""The width of every figure, in inches: that of the text on a printed page."""


def empty_figure(height_in: float) -> Figure:
    """Returns a figure of the usual width without any axes."""
    fig = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    fig.patch.set_alpha(0)
    return fig


def one_panel(height_in: float) -> tuple[Figure, Axes]:
    """Returns a figure with one panel, a pair of axes in the look of all figures."""
    fig = empty_figure(height_in)
    axes = fig.add_subplot()
    quiet(axes)
    return fig, axes


def panel_grid(count: int, columns: int, panel_in: float) -> tuple[Figure, list[Axes]]:
    """Returns a figure with `count` panels in rows of `columns`; all share their y axis.

    Units: `panel_in`, the height of a row, is in inches.
    """
    rows = -(-count // columns)
    fig = empty_figure(panel_in * rows + 0.35)
    grid = fig.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.remove()
    for axes in grid[:count]:
        quiet(axes)
    return fig, list(grid[:count])


def quiet(axes: Axes) -> None:
    """Gives axes the look of all figures: every line that shows no number is removed, and others become pale."""
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
    """Draws a line at the score of a model that has learnt nothing; if `named`, `chance` is written at its end."""
    style: dict[str, Any] = {"color": MUTED, "linewidth": 0.8, "linestyle": (0, (1, 2.2))}
    end: dict[str, Any]
    if vertical:
        axes.axvline(chance, **style)
        end = {"xy": (chance, 1), "xycoords": ("data", "axes fraction"), "xytext": (0, 3), "ha": "center",
               "va": "bottom"}  # fmt: skip
    else:
        axes.axhline(chance, **style)
        end = {"xy": (1, chance), "xycoords": ("axes fraction", "data"), "xytext": (4, 0), "ha": "left", "va": "center"}
    if named:
        axes.annotate("chance", **end, textcoords="offset points", color=MUTED, fontsize=7.5, annotation_clip=False)


DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.6, 1.4)), (0, (6, 1.5, 1.5, 1.5)))
MARKERS = ("o", "s", "^", "D")


@dataclass(frozen=True)
class Look:
    """Says with which color, dashes and marker a trial is drawn."""

    color: str
    dash: Any = "-"
    marker: str = "o"


GRAY = Look(POINT)
"""The look of a search's points that were not confirmed."""


@dataclass(frozen=True)
class Palette:
    """Has the look of each trial, by its number. A point and its confirmation look alike; random points are gray."""

    looks: dict[int, Look]

    @classmethod
    def of(cls, result: StudyResult) -> Palette:
        """Returns the looks of a study's trials. In a search without confirmations only the best so far has a color.

        Arms that differ only in the number of training images share a color; each has its own dashes and marker.
        """
        plan = result.edition.study.plan
        if plan.arms:
            curves = [[row.trial.number for row in rows] for rows in result.by_size]
            inside = {number for numbers in curves for number in numbers}
            curves += [[row.trial.number] for row in result.of("trial") if row.trial.number not in inside]
        else:
            numbers = result.history.confirms or [row.trial.number for row in result.winners]
            curves = [[number] for number in sorted(numbers)]
        looks = {}
        most = max(map(len, curves), default=1)
        for place, numbers in enumerate(sorted(curves, key=min)):
            again, color = divmod(place, len(TRIAL_COLORS))
            for step, number in enumerate(numbers, again * most):
                turn = step // len(DASHES) if most > 1 else 0  # so that sixteen looks of a color differ
                marker = MARKERS[(step + turn) % len(MARKERS)]
                looks[number] = Look(TRIAL_COLORS[color], DASHES[step % len(DASHES)], marker)
        return cls(looks)

    def __getitem__(self, row: TrialResult) -> Look:
        return self.looks.get(row.trial.number, GRAY) if row.trial.role not in RIVALS else GRAY

    def has_color(self, row: TrialResult) -> bool:
        """Returns whether a trial has a color of its own."""
        return row.trial.number in self.looks and row.trial.role not in RIVALS


LETTER_IN = 0.075
"""The approximate width of a letter of 8.5 points. Units: inches."""
MOST_LETTERS = 40
"""A longer name is cut at a line's end, because it would leave no room for the lines; tables show it whole."""


@dataclass(frozen=True)
class Label:
    """Is a name at the end of a line. `at` is the y that it should have; `strong` marks the best trial."""

    text: str
    at: float
    color: str
    strong: bool = False


def label_ends(axes: Axes, labels: Sequence[Label], height_in: float) -> None:
    """Draws names right of the axes, near the ends of their lines; long names are cut.

    Units: `height_in`, the height of the axes, is in inches.
    """
    low, high = axes.get_ylim()
    heights = apart([label.at for label in labels], (high - low) * 0.155 / height_in)
    for label, height in zip(labels, heights, strict=True):
        text = label.text if len(label.text) <= MOST_LETTERS else f"{label.text[: MOST_LETTERS - 1]}…"
        axes.annotate(text, (1, height), xycoords=("axes fraction", "data"), xytext=(4, 0), va="center",
                      textcoords="offset points", color=label.color, fontsize=8.5, annotation_clip=False,
                      fontweight="bold" if label.strong else "normal")  # fmt: skip


def apart(wishes: Sequence[float], gap: float) -> list[float]:
    """Returns heights at least `gap` apart, in the same order as `wishes`, and as near to these as possible."""

    def lowest(cluster: list[int]) -> float:
        return sum(wishes[index] for index in cluster) / len(cluster) - gap * (len(cluster) - 1) / 2

    clusters: list[list[int]] = []
    for index in sorted(range(len(wishes)), key=lambda index: wishes[index]):
        clusters.append([index])
        while len(clusters) > 1 and lowest(clusters[-1]) < lowest(clusters[-2]) + gap * len(clusters[-2]):
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    heights = [0.0] * len(wishes)
    for cluster in clusters:
        for position, index in enumerate(cluster):
            heights[index] = lowest(cluster) + position * gap
    return heights


VARIABLES = {INK: "ink", MUTED: "muted", FAINT: "faint", PAPER: "paper", POINT: "point"} | {
    color: f"series-{number}" for number, color in enumerate(TRIAL_COLORS)
}
"""By each color of a figure: the name of the CSS variable that replaces it in a page."""
COLORS = re.compile("|".join(rf"{color}\b" for color in VARIABLES), flags=re.IGNORECASE)
GROUPS = (
    "figure|image|axes|patch|text|line2d|matplotlib|xtick|ytick|legend|PathCollection|FillBetween|LineCollection"
    "|TriContourSet"
)
IDS = re.compile(rf'\sid="(?:{GROUPS})[^"]*"')
"""Finds the ids that matplotlib gives to groups of an SVG; two figures of a page would have the same ids."""


@dataclass(frozen=True)
class Plot:
    """Is a figure that is not drawn yet.

    `name` is the name of its files, without ending, and of its anchor in the page. `caption` explains every mark that
    such a figure may have. `draw` draws it.
    """

    name: str
    caption: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Drawn:
    """Is a figure that was drawn: its SVG as text, and its PDF as bytes."""

    name: str
    caption: str
    svg: str
    pdf: bytes


def drawn(plot: Plot) -> Drawn:
    """Draws a figure and returns it as SVG and PDF; equal figures become equal files. Cost: about 0.2 s.

    The letters in the PDF are outlines, so that the file needs no fonts: to choose the letters of each font takes three
    times as long as the drawing.
    """
    fig = plot.draw()
    svg, pdf = io.StringIO(), io.BytesIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": plot.name}):
        FigureCanvasSVG(fig).print_svg(svg, metadata={"Date": None, "Creator": None})
    for text in fig.findobj(Text):
        text.set_path_effects([Normal()])
    fig.set_layout_engine("none")  # the SVG before has laid it out
    with mpl.rc_context(STYLE):
        FigureCanvasPdf(fig).print_pdf(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return Drawn(plot.name, plot.caption, svg.getvalue(), pdf.getvalue())


def inline(svg: str, label: str, style: str = "") -> str:
    """Returns an SVG for a page: no prologue, our colors as CSS variables, and `label` for those who cannot see it.

    `style` is CSS with the values of the variables, for an SVG that stands alone.
    """
    text = svg[svg.index("<svg") :]
    text = COLORS.sub(lambda match: f"var(--{VARIABLES[match[0].lower()]})", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = IDS.sub("", text)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{html.escape(label)}" ', 1)
    return text.replace(">", f"><style>{style}</style>", 1) if style else text
