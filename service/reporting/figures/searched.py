"""The searched paths of a study as axes: a panel a path, with the whole of its domain."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from search_spaces.space import CLOSE, Above, Choice, Domain, Integer, Real, Space, Subset
from search_spaces.study import Search
from search_spaces.words import listed, value_words
from service.reporting.figures.plot import FAINT, INK, MUTED, PAPER, POINT, Palette
from trainables.own import OwnSpec
from trainables.recipe import Recipe
from trainables.spec import Spec, SpecError

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


UNIT = re.compile(r"\bin (patches|pixels)\b|\((pixels) a side\)")


def axis_label(path: str, recipes: Iterable[Recipe]) -> str:
    """Returns `encoding.gamma (patches)`; the path alone if it has no unit, or if the trials' units differ."""
    units = {unit(recipe, path) for recipe in recipes}
    (unit_name,) = units if len(units) == 1 else ("",)
    return f"{path} ({unit_name})" if unit_name else path


def unit(recipe: Recipe, path: str) -> str:
    """Returns the unit of a field, as its description names it.

    Nothing if it names none or the recipe has no such field.

    A length in patches is one in grid widths where its encoding takes coordinates from 0 to 1.
    """
    node, _, name = path.rpartition(".")
    try:
        owner = recipe.get(node) if node else recipe
    except SpecError:
        return ""
    owner = owner.made() if isinstance(owner, OwnSpec) else owner
    field = type(owner).model_fields.get(name) if isinstance(owner, Spec) else None
    match = UNIT.search(field.description or "") if field else None
    word = (match[1] or match[2]) if match else ""
    return "grid widths" if word == "patches" and getattr(owner, "coordinates", "raw") == "unit" else word


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
        """Returns where a trial stands on this axis; None if the path was not open for it."""
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
        """Returns the name of the axis, with the unit and with what opens the path, in lines that fit a panel."""
        name = axis_label(self.path, [row.recipe for row in rows if self.value(row) is not None])
        if isinstance(self.domain, Subset):
            name = f"number of {self.path}"
        if len(name) > LINE and " (" in name:
            name = name.replace(" (", "\n(", 1)
        return f"{name}\nif {self.given[0]} is {self.given[1]}" if self.given else name


def panels(space: Space) -> list[Panel]:
    """Returns one panel per path; a path that is open for several values of another one has a panel for each."""
    return [Panel(*opened) for opened in space.opened()]


def lay_axis(axes: Axes, panel: Panel, space: Space, base: Recipe, ticks: int) -> None:
    """Gives the x axis its scale, the whole domain, and as many round numbers as there is room for."""
    match panel.domain:
        case Choice(options=options):
            _words(axes, [str(option) for option in options])
            return
        case Subset(of=of):
            low, high, log, whole = 0.0, float(len(of)), False, True
        case domain:
            low, high = ends(domain, panel, space, base)
            log = isinstance(domain, Above) or (isinstance(domain, Real) and domain.log)  # a factor is on a log scale
            whole = isinstance(domain, Integer)
    room = (high / low) ** MARGIN if log else (high - low) * MARGIN
    limits = (low / room, high * room) if log else (low - room, high + room)
    axes.set(xscale="log" if log else "linear", xlim=limits)
    if log:
        letters = max(len(value_words(float(end))) for end in (low, high))
        _log_ticks(axes.xaxis, low, high, max(2, round(ticks * min(1, LETTERS / letters))))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=max(2, min(ticks - 1, 6)), integer=whole))


def ends(domain: Domain, panel: Panel, space: Space, base: Recipe) -> tuple[float, float]:
    """Returns the lowest and the highest value of a number; of a factor over another path, what both together reach."""
    if isinstance(domain, Real | Integer):
        return domain.low, domain.high
    assert isinstance(domain, Above)
    known = {other.path: other for other in panels(space) if other.given in (None, panel.given)}
    other = known.get(domain.other)
    low, high = ends(other.domain, other, space, base) if other else (base.get(domain.other),) * 2
    return low * domain.factor.low, high * domain.factor.high


def _words(axes: Axes, options: list[str]) -> None:
    """Draws a place an option, the untried ones too."""
    long = sum(map(len, options)) > LINE
    axes.set_xticks(range(len(options)), options, rotation=30 if long else 0, ha="right" if long else "center")
    axes.set_xlim(-0.5, len(options) - 0.5)


def _log_ticks(axis: Axis, low: float, high: float, room: int) -> None:
    """Sets ticks at round numbers within the domain, as many as fit; at its ends if it has fewer than two of them."""
    decades = math.log10(high / low)
    steps = next((steps for steps in ((1.0, 2.0, 5.0), (1.0, 3.0)) if decades * len(steps) <= room), (1.0,))
    ticks = LogLocator(subs=steps, numticks=max(room, 2)).tick_values(low, high)
    inside = [float(tick) for tick in ticks if low * (1 - CLOSE) <= tick <= high * (1 + CLOSE)]
    axis.set_ticks(inside if len(inside) > 1 else [low, high])
    axis.set_major_formatter(lambda value, _: value_words(float(value)))
    axis.set_minor_locator(NullLocator())


def shares(result: StudyResult) -> dict[Panel, float]:
    """Returns the importance of each path for which it is known; empty if the points are too few for it."""
    if not result.importances:
        return {}
    plan = result.edition.study.plan
    assert isinstance(plan, Search)
    known: dict[Panel, float] = {}
    for panel in panels(plan.space):
        names = _coordinate_names(result, panel.path) if panel.given is None else set()
        of_subset = isinstance(panel.domain, Subset)
        some = [
            share for name, share in result.importances.items()
            if name in names or (of_subset and name.rpartition(".")[0] in names)
        ]  # fmt: skip
        if some:
            known[panel] = sum(some)
    return known


def _coordinate_names(result: StudyResult, path: str) -> set[str]:
    """Returns the sampler's names for a path: the path, or the path with its node's kind (`encoding.fourier.gamma`)."""
    node, _, last = path.rpartition(".")
    kinds = {getattr(row.value(node), "kind", None) for row in result.of("trial")} if node else set()
    return {path} | {f"{node}.{kind}.{last}" for kind in kinds}


SHAPES = {"completed": "o", "stopped": "v", "diverged": "x", "incomplete": "o", "open": "o"}
HOLLOW = ("stopped", "incomplete", "open")
WORDS = {"completed": "all seeds", "stopped": "stopped early", "incomplete": "a seed failed", "open": "not finished"}
"""How a point's status looks, and what the key calls it."""


def scored(result: StudyResult) -> list[TrialResult]:
    """Returns the points of a search that have a score."""
    return [row for row in result.of("trial") if row.validation.mean is not None]


def draw_points(axes: Axes, result: StudyResult, place_of: Callable[[TrialResult], float | None]) -> None:
    """Draws each point that has a place: the mean of its seeds, with a line from the lowest to the highest.

    One call draws all points of one status and color, because a call for each point is slower.
    """
    palette = Palette.of(result)
    alike: dict[tuple[str, str], list[tuple[float, list[float]]]] = {}
    for row in sorted(scored(result), key=palette.named):
        place = place_of(row)
        if place is not None:
            same = alike.setdefault((row.answer.status, palette[row].color), [])
            same.append((place, list(row.validation.values.values())))
    for (status, color), points in alike.items():
        several = [(place, seeds) for place, seeds in points if len(seeds) > 1]
        if several:
            x = [at for place, _ in several for at in (place, place, nan)]  # a gap after each line
            axes.plot(x, [end for _, seeds in several for end in (min(seeds), max(seeds), nan)], color=color,
                      linewidth=1.2, alpha=0.6, zorder=1.5)  # fmt: skip
        axes.plot([place for place, _ in points], [fmean(seeds) for _, seeds in points], **point_style(status, color))


def point_style(status: str, color: str) -> dict[str, Any]:
    """Returns the mark of a point."""
    return {"linestyle": "", "marker": SHAPES[status], "markersize": 5, "markeredgewidth": 1.2, "color": color,
            "markerfacecolor": PAPER if status in HOLLOW else color,
            "markeredgecolor": FAINT if status == "open" else color}  # fmt: skip


def ring_style(color: str, *, strong: bool) -> dict[str, Any]:
    """Returns a ring around a point; `strong` for the best."""
    return {"linestyle": "", "marker": "o", "markersize": 10.5 if strong else 9, "markerfacecolor": "none",
            "markeredgecolor": color, "markeredgewidth": 2.2 if strong else 1.1, "zorder": 4}  # fmt: skip


def name_point(axes: Axes, row: TrialResult, place: tuple[float, float], *, below: bool = False) -> None:
    """Draws a point's number above its mark or below it."""
    axes.annotate(f"#{row.trial.number}", place, xytext=(0, -9 if below else 9), ha="center",
                  va="top" if below else "bottom", textcoords="offset points", color=INK, fontweight="bold",
                  annotation_clip=False)  # fmt: skip


def status_handles(rows: Iterable[TrialResult]) -> list[Line2D]:
    """Returns an entry of the key for each status that occurs."""
    seen = dict.fromkeys(row.answer.status for row in rows)
    return [Line2D([], [], **point_style(status, POINT), label=WORDS.get(status, status)) for status in seen]


def key(fig: Figure, handles: Sequence[Any]) -> None:
    """Draws a legend over the panels."""
    fig.legend(handles=handles, loc="outside upper left", ncol=min(5, len(handles)), frameon=False,
               labelcolor=MUTED, fontsize=7.5, handlelength=1.4, handletextpad=0.45, columnspacing=1.2,
               borderaxespad=0)  # fmt: skip


def best_sentence(result: StudyResult, rings: Sequence[TrialResult]) -> str:
    """Returns which point is best, and whether it has a heavy ring among `rings`."""
    names = listed([f"#{row.trial.number}" for row in result.winners])
    ringed = any(row in result.winners for row in rings)
    if len(result.winners) > 1:
        return f"{names} tie as best{' and have the heavy rings' if ringed else ''}."
    return f"{names} is the best{' and has the heavy ring' if ringed else ''}." if names else ""


def status_sentences(rows: Iterable[TrialResult]) -> list[str]:
    """Returns what the marks mean that occur."""
    answers = [row.answer for row in rows]
    seen = {answer.status for answer in answers}
    raced = {answer.raced for answer in answers if answer.status == "stopped"}
    triangles = [
        "a point's first seed where it was stopped" if False in raced else "",
        "the mean of the seeds of a point that left the race" if True in raced else "",
    ]
    return [
        f"A triangle is {' or '.join(filter(None, triangles))}." if raced else "",
        "A cross diverged and counts at chance." if "diverged" in seen else "",
        "A hollow dot lacks a seed." if seen & {"incomplete", "open"} else "",
    ]
