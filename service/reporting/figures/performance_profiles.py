"""Performance profiles: the share of a method's runs above each score, a panel a method, with the control in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from service.analysis.estimates.league import League
from service.analysis.estimates.over_tasks import Profile
from service.analysis.format import metric_words
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.style import INK, MUTED, SERIES, panel_grid

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

PANEL_IN = 1.35
"""Units: inches of height."""


def performance_profiles(result: StudyResult) -> Plot | None:
    """The figure; None for a study without tasks, or where no task has all its runs."""
    found = result.league
    if found is None or found.runs is None:
        return None
    profiles, metric = found.runs.profiles(), metric_words(result.edition.study.score.test)
    return Plot("profiles", _caption(found, profiles, metric), lambda: _draw(found, profiles, metric))


def _draw(found: League, profiles: dict[str, Profile], metric: str) -> Figure:
    others = [name for name in found.order if name != found.control]
    columns = 4
    fig, panels = panel_grid(len(others), columns, PANEL_IN)
    for place, (axes, name) in enumerate(zip(panels, others, strict=True)):
        _line(axes, profiles[found.control], SERIES[0], 1.0)
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


def _caption(found: League, profiles: dict[str, Profile], metric: str) -> str:
    some = any(profile.low is not None for profile in profiles.values())
    return sentences((
        f"Performance profiles over {found.over}: the share of a method's runs whose {metric} is above the value on "
        "the axis. A line that is higher everywhere is better.",
        f"In color: {found.control}, in each panel.",
        "Bands: 95 % intervals at each value, for other seeds, by a stratified bootstrap." if some else "",
    ))  # fmt: skip
