"""The critical-difference diagram: methods on a line of mean ranks, bars over those that are not told apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from service.analysis.estimates.league import League, Profile, why_untested
from service.analysis.format import TRIAL_COLORS, metric_words, p_text
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import FAINT, INK, MUTED, empty_figure, panel_grid

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


STEP, BAR = 1.0, 0.38
"""The height of a name's line, and of a bar of a group."""
LINE_IN = 0.2
"""Units: inches a name's line."""


def critical_difference(result: StudyResult) -> Plot | None:
    """The diagram; None for a study without tasks, or where no task has all its runs."""
    found = result.league
    if found is None or found.ranking is None:
        return None
    return Plot("critical_difference", _caption_critical_difference(found), lambda: _draw_critical_difference(found))


def _draw_critical_difference(found: League) -> Figure:
    assert found.ranking is not None
    means, groups = found.ranking.means, found.groups
    lines = math.ceil(len(means) / 2)
    depth = BAR * (len(groups) + 1) + STEP * lines
    fig = empty_figure(LINE_IN * (depth / STEP + 3.2))
    axes = fig.add_subplot()
    axes.patch.set_alpha(0)
    axes.set_axis_off()
    most = len(means)
    axes.set(xlim=(0.8, most + 0.2), ylim=(-depth - 0.4, 2.6))  # the layout makes room for the names at both sides
    _scale(axes, most)
    if found.ranking.differs:
        apart = found.ranking.critical_difference()
        axes.plot([1, 1 + apart], [1.9, 1.9], color=MUTED, linewidth=1.2, marker="|", markersize=5)
        axes.annotate(f"critical difference {apart:.2f}", (1 + apart / 2, 1.9), xytext=(0, 3), ha="center",
                      va="bottom", textcoords="offset points", color=MUTED, fontsize=7.5)  # fmt: skip
    for place, group in enumerate(groups):
        y = -BAR * (place + 1)
        axes.plot([means[group[0]] - 0.06, means[group[-1]] + 0.06], [y, y], color=INK, linewidth=2.4,
                  solid_capstyle="round")  # fmt: skip
    for place, (name, mean) in enumerate(means.items()):
        left = place < lines
        row = place if left else most - 1 - place
        y = -BAR * (len(groups) + 1) - STEP * row
        _method(axes, f"{name} {mean:.2f}", mean, y, (1 if left else most, left), strong=name == found.control)
    return fig


def _scale(axes: Axes, most: int) -> None:
    """The line of ranks, 1 at the left."""
    axes.plot([1, most], [0, 0], color=MUTED, linewidth=1)
    for rank in range(1, most + 1):
        axes.plot([rank, rank], [0, 0.22], color=MUTED, linewidth=1)
        axes.annotate(f"{rank}", (rank, 0.22), xytext=(0, 2), textcoords="offset points", ha="center", va="bottom",
                      color=MUTED, fontsize=7.5)  # fmt: skip


def _method(axes: Axes, text: str, mean: float, y: float, end: tuple[int, bool], *, strong: bool) -> None:
    """A line from a mean rank down and out to the name. `end`: where it ends, and whether that is the left side."""
    at, left = end
    ink = TRIAL_COLORS[0] if strong else INK
    outer = min(at, mean) - 0.1 if left else max(at, mean) + 0.1
    axes.plot([mean, mean, outer], [0, y, y], color=ink if strong else FAINT, linewidth=1, zorder=0.5)
    axes.plot([mean], [0], marker="o", markersize=3.5, color=ink)
    axes.annotate(text, (outer, y), xytext=(-3 if left else 3, 0), textcoords="offset points",
                  ha="right" if left else "left", va="center", color=ink, fontsize=8.5)  # fmt: skip


def _caption_critical_difference(found: League) -> str:
    assert found.ranking is not None
    ranking = found.ranking
    return sentences((
        f"The mean rank of each method over {found.over}; 1, at the left, is the best.",
        f"Friedman's test of whether all are alike: p {p_text(ranking.friedman.p)}." if ranking.testable else "",
        "A bar joins methods whose mean ranks are nearer than the critical difference of Nemenyi's test, so that they "
        "are not told apart." if ranking.differs and found.groups else "",
        "The bar joins all of them, for Friedman's test does not tell any apart."
        if ranking.testable and not ranking.differs else "",
        why_untested(found),
        f"In color: {found.control}, with which the others are compared.",
    ))  # fmt: skip


PANEL_IN = 1.35
"""Units: inches of height."""


def performance_profiles(result: StudyResult) -> Plot | None:
    """The figure; None for a study without tasks, or where no task has all its runs."""
    found = result.league
    if found is None or found.runs is None:
        return None
    profiles, metric = found.runs.profiles(), metric_words(result.edition.study.score.test)
    return Plot(
        "profiles",
        _caption_performance_profiles(found, profiles, metric),
        lambda: _draw_performance_profiles(found, profiles, metric),
    )


def _draw_performance_profiles(found: League, profiles: dict[str, Profile], metric: str) -> Figure:
    others = [name for name in found.order if name != found.control]
    columns = 4
    fig, panels = panel_grid(len(others), columns, PANEL_IN)
    for place, (axes, name) in enumerate(zip(panels, others, strict=True)):
        _line(axes, profiles[found.control], TRIAL_COLORS[0], 1.0)
        _line(axes, profiles[name], INK, 1.6)
        axes.set_title(name, fontsize=8.5, color=INK, loc="left")
        axes.set_ylim(-0.03, 1.03)
        axes.tick_params(labelbottom=place + columns >= len(others))
    fig.supxlabel(metric, fontsize=8.5, color=MUTED)
    fig.supylabel("share of runs", fontsize=8.5, color=MUTED)
    return fig


def _line(axes: Axes, profile: Profile, color: str, width: float) -> None:
    if profile.low is not None and profile.high is not None:
        axes.fill_between(profile.thresholds, profile.low, profile.high, color=color, alpha=0.15, linewidth=0)
    axes.plot(profile.thresholds, profile.shares, color=color, linewidth=width)


def _caption_performance_profiles(found: League, profiles: dict[str, Profile], metric: str) -> str:
    some = any(profile.low is not None for profile in profiles.values())
    return sentences((
        f"Performance profiles over {found.over}: the share of a method's runs whose {metric} is above the value on "
        "the axis. A line that is higher everywhere is better.",
        f"In color: {found.control}, in each panel.",
        "Bands: 95 % intervals at each value, for other seeds, by a stratified bootstrap." if some else "",
    ))  # fmt: skip
