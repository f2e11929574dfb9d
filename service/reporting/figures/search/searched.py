"""The searched paths of a study as axes: a panel a path, with the whole of its domain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from search_spaces.space import CLOSE, Above, Choice, Domain, Integer, Real, Space, Subset
from search_spaces.words import value_words
from service.reporting.figures.units import axis_label

if TYPE_CHECKING:
    from service.analysis.trial_result import TrialResult
    from trainables.recipe import Recipe

MARGIN = 0.04
"""The share of an axis left free at each end of the domain."""
LETTERS = 4
"""The length of a label for which the room on an axis is counted; longer ones leave room for fewer."""
LINE = 26
"""From how many letters on the name of an axis takes two lines."""


@dataclass(frozen=True)
class Panel:
    """One searched path. `given`: the path and the value that open it, where it is not always open."""

    path: str
    domain: Domain
    given: tuple[str, str] | None = None

    def value(self, row: TrialResult) -> float | None:
        """Where a trial stands on this axis; None where the path was not open for it."""
        values = row.trial.values
        if self.given is not None and str(values.get(self.given[0])) != self.given[1]:
            return None
        value = values.get(self.path)
        if value is None:
            return None
        if isinstance(self.domain, Choice):
            return float(self.domain.options.index(value)) if value in self.domain.options else None
        return float(len(value) if isinstance(self.domain, Subset) else value)

    def label(self, rows: list[TrialResult]) -> str:
        """The name of the axis, with the unit and with what opens the path, in lines that fit a panel."""
        name = axis_label(self.path, [row.recipe for row in rows if self.value(row) is not None])
        if isinstance(self.domain, Subset):
            name = f"number of {self.path}"
        if len(name) > LINE and " (" in name:
            name = name.replace(" (", "\n(", 1)
        return f"{name}\nwhere {self.given[0]} is {self.given[1]}" if self.given else name


def panels(space: Space) -> list[Panel]:
    """A panel a path; a path that is open for several values of another one has a panel for each."""
    return list(_panels(space))


def _panels(space: Space) -> Iterator[Panel]:
    for path, domain in space.domains.items():
        yield Panel(path, domain)
        for case, domains in space.given.get(path, {}).items():
            for inner, branch in domains.items():
                yield Panel(inner, branch, (path, case))


def lay_axis(axes: Axes, panel: Panel, space: Space, base: Recipe, ticks: int, *, upright: bool = False) -> None:
    """Gives the x axis its scale, the whole domain, and as many round numbers as there is room for.

    `upright`: the y axis instead, for a path of numbers.
    """
    match panel.domain:
        case Choice(options=options):
            _words(axes, [str(option) for option in options])
            return
        case Subset(of=of):
            low, high, log, whole = 0.0, float(len(of)), False, True
        case domain:
            low, high = ends(domain, panel, space, base)
            log, whole = is_log(domain), isinstance(domain, Integer)
    room = (high / low) ** MARGIN if log else (high - low) * MARGIN
    limits = (low / room, high * room) if log else (low - room, high + room)
    axis = axes.yaxis if upright else axes.xaxis
    if upright:
        axes.set(yscale="log" if log else "linear", ylim=limits)
    else:
        axes.set(xscale="log" if log else "linear", xlim=limits)
    if log:
        letters = 0 if upright else max(len(value_words(float(end))) for end in (low, high))
        _log_ticks(axis, low, high, max(2, round(ticks * min(1, LETTERS / max(letters, 1)))))
    else:
        axis.set_major_locator(MaxNLocator(nbins=max(2, min(ticks - 1, 6)), integer=whole))


def ends(domain: Domain, panel: Panel, space: Space, base: Recipe) -> tuple[float, float]:
    """The lowest and the highest value of a number; of a factor over another path, what both together reach."""
    if isinstance(domain, Real | Integer):
        return domain.low, domain.high
    assert isinstance(domain, Above)
    known = {other.path: other for other in _panels(space) if other.given in (None, panel.given)}
    other = known.get(domain.other)
    low, high = ends(other.domain, other, space, base) if other else (base.get(domain.other),) * 2
    return low * domain.factor.low, high * domain.factor.high


def is_log(domain: Domain) -> bool:
    """Whether a path is searched on a log scale; what is a factor over another path is."""
    return isinstance(domain, Above) or (isinstance(domain, Real) and domain.log)


def _words(axes: Axes, options: list[str]) -> None:
    """A place an option, the untried ones too."""
    long = sum(map(len, options)) > LINE
    axes.set_xticks(range(len(options)), options, rotation=30 if long else 0, ha="right" if long else "center")
    axes.set_xlim(-0.5, len(options) - 0.5)


def _log_ticks(axis: Axis, low: float, high: float, room: int) -> None:
    """Round numbers within the domain, as many as there is room for; its ends where no round number lies in it."""
    decades = math.log10(high / low)
    steps = next((steps for steps in ((1.0, 2.0, 5.0), (1.0, 3.0)) if decades * len(steps) <= room), (1.0,))
    found = LogLocator(subs=steps, numticks=max(room, 2)).tick_values(low, high)
    inside = [float(tick) for tick in found if low * (1 - CLOSE) <= tick <= high * (1 + CLOSE)]
    axis.set_ticks(inside if len(inside) > 1 else [low, high])
    axis.set_major_formatter(lambda value, _: value_words(float(value)))
    axis.set_minor_locator(NullLocator())
