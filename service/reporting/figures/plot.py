"""What a figure of a report is: a caption, and a way to draw it; and how it becomes SVG for a page, PDF for a paper."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patheffects import Normal
from matplotlib.text import Text

from service.analysis.format import TRIAL_COLORS
from service.reporting.figures.style import FAINT, INK, MUTED, PAPER, POINT, STYLE

VARIABLES = {INK: "ink", MUTED: "muted", FAINT: "faint", PAPER: "paper", POINT: "point"} | {
    color: f"series-{number}" for number, color in enumerate(TRIAL_COLORS)
}
"""By color: the CSS variable that replaces it in a page."""
COLORS = re.compile("|".join(rf"{color}\b" for color in VARIABLES), flags=re.IGNORECASE)
GROUPS = (
    "figure|image|axes|patch|text|line2d|matplotlib|xtick|ytick|legend|PathCollection|FillBetween|LineCollection"
    "|TriContourSet"
)
IDS = re.compile(rf'\sid="(?:{GROUPS})[^"]*"')
"""Names that matplotlib gives to groups; two figures of a page would share them."""


@dataclass(frozen=True)
class Plot:
    """A figure that can be drawn. `name`: of its files and its anchor."""

    name: str
    caption: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Drawn:
    """A figure as text and bytes."""

    name: str
    caption: str
    svg: str
    pdf: bytes


def drawn(plot: Plot) -> Drawn:
    """The figure as SVG and PDF. Cost: about 0.2 s."""
    fig = plot.draw()
    return Drawn(plot.name, plot.caption, to_svg(fig, plot.name), to_pdf(fig))


def sentences(parts: Iterable[str]) -> str:
    """A caption of the sentences that apply; the others are empty."""
    return " ".join(filter(None, parts))


def to_svg(fig: Figure, name: str) -> str:
    """The figure as an SVG file's text; equal figures become equal texts."""
    buffer = io.StringIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        FigureCanvasSVG(fig).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def to_pdf(fig: Figure) -> bytes:
    """The figure as a PDF file, its letters as outlines; equal figures become equal files.

    Outlines need no font in the file: to choose the letters of each font takes three times as long as the drawing.
    """
    buffer = io.BytesIO()
    for text in fig.findobj(Text):
        text.set_path_effects([Normal()])
    fig.set_layout_engine("none")  # the SVG before has laid it out
    with mpl.rc_context(STYLE):
        FigureCanvasPdf(fig).print_pdf(buffer, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return buffer.getvalue()


def inline(svg: str, label: str) -> str:
    """An SVG for use inside a page: no prologue, our colors as CSS variables, a name for those who cannot see it."""
    text = svg[svg.index("<svg") :]
    text = COLORS.sub(lambda found: f"var(--{VARIABLES[found[0].lower()]})", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = IDS.sub("", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{html.escape(label)}" ', 1)
