"""Draws the figures of a search: scores over each searched path, on its whole domain; and scores in order of proposal.

Only points whose seeds were all trained count for the best so far, as for the best of the study; the scores of others
cannot be compared. Confirmations, which have other seeds, are not in the history.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from search_spaces.roles import Role
from search_spaces.space import CLOSE, Above, Choice, Domain, Integer, Real, Space, Subset
from search_spaces.words import value_words
from service.analysis.format import metric_words
from service.analysis.study_result import StudyResult
from service.analysis.trial_result import TrialResult
from service.reporting.figures import plot
from trainables.own import OwnSpec
from trainables.recipe import Recipe
from trainables.spec import Spec, SpecError

ACROSS, TICKS = 3, 12
"""At most so many panels stand side by side, and the width of a figure holds so many labels of an axis."""
MARGIN = 0.04
"""The share of the domain's length that an axis leaves free at each end."""
LETTERS = 4
"""An axis has room for `TICKS` labels of so many letters; longer labels leave room for fewer."""
LINE = 26
"""The name of an axis takes two lines if it has more letters than this."""
FEWEST_TRIED = 2
"""The history is drawn from so many points with a score on."""
SHAPES = {"completed": "o", "stopped": "v", "diverged": "x", "incomplete": "o", "open": "o"}
HOLLOW = ("stopped", "incomplete", "open")
WORDS = {"completed": "all seeds", "stopped": "stopped early", "incomplete": "a seed failed", "open": "not finished"}
"""By a point's status: its marker, whether the marker is hollow, and the words of the key."""
FAILED: dict[str, Any] = {"linestyle": "", "marker": "|", "markersize": 8, "color": plot.MUTED, "markeredgewidth": 1.4}
"""The style of the mark, on the x axis, of a point that failed without a score."""

MARKS = (
    "A dot is the mean over a point's seeds, with a line from the lowest seed to the highest. A triangle is a point's "
    "first seed where it was stopped, or the mean of the seeds of a point that left the race. A cross diverged and "
    "counts at chance. A hollow dot lacks a seed. The best has its number."
)
LANDSCAPE = (
    f"The validation score of each point over each searched path; the axis is the whole domain. {MARKS} Rings are "
    "points on fresh seeds, in the color of the point; a heavy ring is the best. A panel shows the points for which "
    "its path was open."
)
HISTORY = (
    f"The validation score of each point in the order in which they were proposed. {MARKS} An upright mark failed "
    "without a score. The line is the highest mean so far of points with all their seeds; a dashed line is that of "
    "random points, which have seeds of their own."
)


UNIT = re.compile(r"\bin (patches|pixels)\b|\((pixels) a side\)")


def axis_label(path: str, recipes: Iterable[Recipe]) -> str:
    """Returns a path with its unit, `encoding.gamma (patches)`; without it if there is none, or the trials' differ."""
    units = {unit(recipe, path) for recipe in recipes}
    (unit_name,) = units if len(units) == 1 else ("",)
    return f"{path} ({unit_name})" if unit_name else path


def unit(recipe: Recipe, path: str) -> str:
    """Returns the unit that the description of a path's field names; empty for none.

    Lengths in coordinates from 0 to 1 have the width of the grid as their unit.
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


@dataclass(frozen=True)
class Panel:
    """Is the panel of one searched path.

    `given` is None if the path is always open (has a value); else the other path, and its value that opens this one.
    """

    path: str
    domain: Domain
    given: tuple[str, str] | None = None

    def value(self, row: TrialResult) -> float | None:
        """Returns the trial's place on the x axis of this panel; None if the path was not open for the trial."""
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
        """Returns the name of the x axis in lines that fit a panel: the path, its unit, and what opens the path."""
        name = axis_label(self.path, [row.recipe for row in rows if self.value(row) is not None])
        if isinstance(self.domain, Subset):
            name = f"number of {self.path}"
        if len(name) > LINE and " (" in name:
            name = name.replace(" (", "\n(", 1)
        return f"{name}\nif {self.given[0]} is {self.given[1]}" if self.given else name


def panels(space: Space) -> list[Panel]:
    """Returns one panel per path; a path that several values of another path open has a panel for each of them."""
    return [Panel(*opened) for opened in space.opened()]


def shares(result: StudyResult) -> dict[Panel, float]:
    """Returns, by panel, the importance of its path for the score, where it is known; empty for too few points."""
    if not result.importances:
        return {}
    plan = result.edition.study.plan
    assert plan.space is not None
    importances: dict[Panel, float] = {}
    for panel in panels(plan.space):
        if panel.given is not None:
            continue
        # the sampler calls a path by itself, or by the path with its node's kind (`encoding.fourier.gamma`)
        node, _, last = panel.path.rpartition(".")
        kinds = {getattr(row.value(node), "kind", None) for row in result.of("trial")} if node else set()
        names = {panel.path} | {f"{node}.{kind}.{last}" for kind in kinds}
        of_subset = isinstance(panel.domain, Subset)
        parts = [
            share
            for name, share in result.importances.items()
            if name in names or (of_subset and name.rpartition(".")[0] in names)
        ]
        if parts:
            importances[panel] = sum(parts)
    return importances


def _lay_axis(axes: Axes, panel: Panel, space: Space, base: Recipe, room: int) -> None:
    """Gives the x axis its scale, the whole domain of its path, and round numbers, about `room` of them at most."""
    if isinstance(panel.domain, Choice):
        options = [str(option) for option in panel.domain.options]
        long = sum(map(len, options)) > LINE
        axes.set_xticks(range(len(options)), options, rotation=30 if long else 0, ha="right" if long else "center")
        axes.set_xlim(-0.5, len(options) - 0.5)
        return
    domain = panel.domain
    low, high = _ends(domain, panel, space, base)
    if not isinstance(domain, Above) and not (isinstance(domain, Real) and domain.log):
        free = (high - low) * MARGIN
        axes.set(xscale="linear", xlim=(low - free, high + free))
        whole = isinstance(domain, Integer | Subset)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=max(2, min(room - 1, 6)), integer=whole))
        return
    factor = (high / low) ** MARGIN  # a factor over another path is on a logarithmic scale, too
    axes.set(xscale="log", xlim=(low / factor, high * factor))
    letters = max(len(value_words(float(end))) for end in (low, high))
    room = max(2, round(room * min(1, LETTERS / letters)))
    decades = math.log10(high / low)
    steps = next((steps for steps in ((1.0, 2.0, 5.0), (1.0, 3.0)) if decades * len(steps) <= room), (1.0,))
    ticks = LogLocator(subs=steps, numticks=room).tick_values(low, high)
    inside = [float(tick) for tick in ticks if low * (1 - CLOSE) <= tick <= high * (1 + CLOSE)]
    axes.xaxis.set_ticks(inside if len(inside) > 1 else [low, high])
    axes.xaxis.set_major_formatter(lambda value, _: value_words(float(value)))
    axes.xaxis.set_minor_locator(NullLocator())


def _ends(domain: Domain, panel: Panel, space: Space, base: Recipe) -> tuple[float, float]:
    """Returns the lowest and the highest value of a path; for a factor over another path, of both multiplied."""
    if isinstance(domain, Real | Integer):
        return domain.low, domain.high
    if isinstance(domain, Subset):
        return 0.0, float(len(domain.of))
    assert isinstance(domain, Above)
    others = {other.path: other for other in panels(space) if other.given in (None, panel.given)}
    other = others.get(domain.other)
    low, high = _ends(other.domain, other, space, base) if other else (base.get(domain.other),) * 2
    return low * domain.factor.low, high * domain.factor.high


def scored(result: StudyResult) -> list[TrialResult]:
    """Returns the points of a search that have a score."""
    return [row for row in result.of("trial") if row.validation.mean is not None]


def _draw_points(axes: Axes, result: StudyResult, x_of: Callable[[TrialResult], float | None]) -> None:
    """Draws each point for which `x_of` gives an x: the mean of its seeds, and a line from the lowest to the highest.

    One call draws all points of one status and color, because a call for each point is slower.
    """
    palette = plot.Palette.of(result)
    alike: dict[tuple[str, str], list[tuple[float, list[float]]]] = {}
    for row in sorted(scored(result), key=palette.has_color):
        x = x_of(row)
        if x is not None:
            same = alike.setdefault((row.answer.status, palette[row].color), [])
            same.append((x, list(row.validation.values.values())))
    for (status, color), points in alike.items():
        several = [(x, seeds) for x, seeds in points if len(seeds) > 1]
        if several:
            lines = [end for x, _ in several for end in (x, x, nan)]  # a gap after each line
            axes.plot(lines, [end for _, seeds in several for end in (min(seeds), max(seeds), nan)], color=color,
                      linewidth=1.2, alpha=0.6, zorder=1.5)  # fmt: skip
        axes.plot([x for x, _ in points], [fmean(seeds) for _, seeds in points], **_point_style(status, color))


def _point_style(status: str, color: str) -> dict[str, Any]:
    return {"linestyle": "", "marker": SHAPES[status], "markersize": 5, "markeredgewidth": 1.2, "color": color,
            "markerfacecolor": plot.PAPER if status in HOLLOW else color,
            "markeredgecolor": plot.FAINT if status == "open" else color}  # fmt: skip


def _name_point(axes: Axes, row: TrialResult, xy: tuple[float, float], *, below: bool = False) -> None:
    """Writes the number of a point above its mark, which is at `xy`, or below it."""
    axes.annotate(f"#{row.trial.number}", xy, xytext=(0, -9 if below else 9), ha="center",
                  va="top" if below else "bottom", textcoords="offset points", color=plot.INK, fontweight="bold",
                  annotation_clip=False)  # fmt: skip


def _key(fig: Figure, result: StudyResult, handles: Sequence[Line2D]) -> None:
    """Draws a legend over the panels: an entry for each status that occurs, and then `handles`."""
    seen = dict.fromkeys(row.answer.status for row in scored(result))
    marks = [Line2D([], [], **_point_style(status, plot.POINT), label=WORDS.get(status, status)) for status in seen]
    fig.legend(handles=[*marks, *handles], loc="outside upper left", ncol=min(5, len(marks) + len(handles)),
               frameon=False, labelcolor=plot.MUTED, fontsize=7.5, handlelength=1.4, handletextpad=0.45,
               columnspacing=1.2, borderaxespad=0)  # fmt: skip


def landscape(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of a search's scores over each path; None before any point has a score."""
    plan = result.edition.study.plan
    if (space := plan.space) is None or not scored(result):
        return None
    return plot.Plot("landscape", LANDSCAPE, lambda: _draw_landscape(result, space))


def _draw_landscape(result: StudyResult, space: Space) -> Figure:
    searched, palette, base = panels(space), plot.Palette.of(result), result.edition.study.base
    across = min(len(searched), ACROSS)
    fig, axes = plot.panel_grid(len(searched), across, 2.7 if len(searched) <= across else 2.2)
    rings: list[tuple[TrialResult, dict[str, Any]]] = []
    for row in result.confirmed:
        if row.validation.mean is not None:
            size, edge = (10.5, 2.2) if row in result.winners else (9, 1.1)
            style: dict[str, Any] = {
                "linestyle": "",
                "marker": "o",
                "markersize": size,
                "markerfacecolor": "none",
                "zorder": 4,
            }
            rings.append((row, style | {"markeredgecolor": palette[row].color, "markeredgewidth": edge}))
    for number, (panel, ax) in enumerate(zip(searched, axes, strict=True)):
        _lay_axis(ax, panel, space, base, max(TICKS // across, 2))
        ax.set_xlabel(panel.label(result.rows), fontsize=8)
        plot.chance_line(ax, base.data.chance("val"), named=number == across - 1)
        _draw_points(ax, result, panel.value)
        for row, ring in rings:
            if (x := panel.value(row)) is not None:
                ax.plot([x], [row.validation.mean or 0.0], **ring)
        if number % across == 0:
            ax.set_ylabel(metric_words(result.edition.study.score.metric))
    axes[0].margins(y=0.12)
    if len(result.winners) == 1:  # numbers of several that tie would cover each other; the key has them
        (row,) = result.winners
        places = ((ax, panel.value(row)) for ax, panel in zip(axes, searched, strict=True))
        ax, x = next((ax, x) for ax, x in places if x is not None)
        mean = row.validation.mean or 0.0
        dots = [point.validation.mean or 0.0 for point in result.of("trial") if point.trial.number == row.trial.number]
        _name_point(ax, row, (x, mean), below=max(dots) > mean)  # away from the point's own dot
    _key(fig, result, [Line2D([], [], **style, label=f"#{row.trial.number} on fresh seeds") for row, style in rings])
    return fig


def optimization_history(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of a search's scores in the order of proposal; None before two points have a score."""
    if result.edition.study.plan.arms or len(scored(result)) < FEWEST_TRIED:
        return None
    return plot.Plot("history", HISTORY, lambda: _draw_history(result))


def best_so_far(result: StudyResult, role: Role = "trial") -> dict[int, float]:
    """Returns, by a point's number, the highest mean so far: that of points up to it that have all their seeds."""
    highest: dict[int, float] = {}
    best: float | None = None
    for row in sorted(result.of(role), key=lambda row: row.trial.number):
        mean = row.validation.mean
        if row.answer.status == "completed" and mean is not None:
            best = mean if best is None else max(best, mean)
        if best is not None and mean is not None:
            highest[row.trial.number] = best
    return highest


def _draw_history(result: StudyResult) -> Figure:
    height, chance = 2.8, result.edition.study.base.data.chance("val")
    fig, axes = plot.one_panel(height)
    plot.chance_line(axes, chance, named=False)
    _draw_points(axes, result, lambda row: row.trial.number)
    without = [row for row in result.of("trial") if row.answer.status == "incomplete" and row.validation.mean is None]
    if without:
        numbers = [row.trial.number for row in without]
        axes.plot(numbers, [0] * len(numbers), transform=axes.get_xaxis_transform(), clip_on=False, **FAILED)
    best = {row.trial.number for row in result.winners}
    for row in scored(result):
        if row.trial.number in best:
            _name_point(axes, row, (row.trial.number, max(row.validation.values.values())))

    lines = {"random points": best_so_far(result, "rival"), "search": best_so_far(result)}
    labels = []
    for title, color, dash in (("random points", plot.MUTED, (0, (4, 2))), ("search", plot.INK, "-")):
        if line := lines[title]:
            # half a place longer, to show the last step
            x, y = [*line, max(line) + 0.5], [*line.values(), [*line.values()][-1]]
            axes.plot(x, y, drawstyle="steps-post", color=color, linestyle=dash, linewidth=1.4, zorder=1.8)
            labels.append(plot.Label(title, y[-1], color))
    axes.margins(y=0.12)
    axes.set_xlabel("number of the point, in the order of proposal")
    axes.set_ylabel(metric_words(result.edition.study.score.metric))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=9))
    named = labels if lines["random points"] else []
    plot.label_ends(axes, [*named, plot.Label("chance", chance, plot.MUTED)], height - 0.7)
    handles = [Line2D([], [], **FAILED, label="failed")] if without else []
    handles += [Line2D([], [], color=plot.INK, linewidth=1.4, label="best so far")] if lines["search"] else []
    _key(fig, result, handles)
    return fig
