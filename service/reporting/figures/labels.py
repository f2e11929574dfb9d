"""Names beside what they name, moved so that they do not cover each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from service.reporting.figures.style import INK, MUTED

LETTER_IN = 0.075
"""About the width of a letter of 8.5 points. Units: inches."""


@dataclass(frozen=True)
class Label:
    """A name with its color and its wanted height; `strong` for the best trial."""

    text: str
    at: float
    color: str
    strong: bool = False


def label_ends(axes: Axes, labels: Sequence[Label], height_in: float) -> None:
    """Names right of the axes, each at its line's end or close to it. Units: `height_in` of the axes, about."""
    low, high = axes.get_ylim()
    places = apart([label.at for label in labels], (high - low) * 0.155 / height_in)
    for label, place in zip(labels, places, strict=True):
        axes.annotate(label.text, (1, place), xycoords=("axes fraction", "data"), xytext=(4, 0), va="center",
                      textcoords="offset points", color=label.color, fontsize=8.5, annotation_clip=False,
                      fontweight="bold" if label.strong else "normal")  # fmt: skip


def chance_label(chance: float) -> Label:
    """The name of the line at chance."""
    return Label("chance", chance, MUTED)


def ink(color: str, *, strong: bool) -> str:
    """The color of a name: ink for the best trial."""
    return INK if strong else color


def apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Places as near as can be to those wanted, in the same order, at least `gap` apart."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    clusters: list[list[int]] = []
    for index in order:
        clusters.append([index])
        while len(clusters) > 1 and _start(clusters[-1], wanted, gap) < _end(clusters[-2], wanted, gap) + gap:
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    places = [0.0] * len(wanted)
    for cluster in clusters:
        for position, index in enumerate(cluster):
            places[index] = _start(cluster, wanted, gap) + position * gap
    return places


def _start(cluster: list[int], wanted: Sequence[float], gap: float) -> float:
    return sum(wanted[index] for index in cluster) / len(cluster) - gap * (len(cluster) - 1) / 2


def _end(cluster: list[int], wanted: Sequence[float], gap: float) -> float:
    return _start(cluster, wanted, gap) + gap * (len(cluster) - 1)
