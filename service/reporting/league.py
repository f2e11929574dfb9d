"""The league on the page: its tables of methods, and the critical-difference diagram."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from search_spaces.words import listed, plural, quoted
from service.analysis.data_efficiency import LEVELS, Curve, Needed
from service.analysis.format import TRIAL_COLORS, between, fixed, metric_words, number, p_text
from service.analysis.league import League, Measure, Profile, why_untested
from service.analysis.statistics import Scores
from service.reporting.figures.plot import FAINT, INK, MUTED, Plot, empty_figure, panel_grid, sentences
from service.reporting.pages import Column, Table
from service.reporting.provenance import mixed_machines, parameters, train_time_unit, training_s

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


def league_tables(result: StudyResult) -> list[Table]:
    """Returns the league, what all runs together say, and the properties; none for a study without tasks."""
    league = result.league
    if league is None:
        return []
    metric = metric_words(result.edition.study.score.test)
    ranked = [_league(league, metric), _together(league, metric)] if league.ranking else []
    return [*ranked, properties(result, league)]


def _league(league: League, metric: str) -> Table:
    assert league.ranking is not None
    assert league.runs is not None
    ranking, names = league.ranking, league.order
    against = ranking.against(league.control) if ranking.differs else {}
    columns = [_methods(league), Column("mean rank", [f"{ranking.means[name]:.2f}" for name in names])]
    if intervals := ranking.intervals():
        ends = [f"{low:.2f} to {high:.2f}" for low, high in (intervals[name] for name in names)]
        columns.append(Column("95 % interval", ends, under=True))
    if against:
        ps = [p_text(against[name].p).removeprefix("= ") if name in against else "" for name in names]
        columns.append(Column("p (Holm)", ps, "against the control"))
    for family, ranks in ranking.by_family.items():
        means = league.runs.means(family)
        columns.append(Column("rank", [f"{ranks[name]:g}" for name in names], family))
        columns.append(Column(metric, [fixed(means[name]) for name in names], family, under=True))
    first = {names[0], *league.alike} if ranking.differs else set()
    strong = frozenset(place for place, name in enumerate(names) if name in first)
    return Table("league", f"The league over {league.over}", columns, strong, _league_note(league))


def _methods(league: League) -> Column:
    marks = [" (control)" if name == league.control else "" for name in league.order]
    return Column("method", [name + mark for name, mark in zip(league.order, marks, strict=True)], words=True)


def _league_note(league: League) -> str:
    assert league.ranking is not None
    assert league.runs is not None
    ranking = league.ranking
    parts = ["Methods are ranked by their mean test scores in each family of tasks: 1 is the best."]
    several = {family: tasks for family, tasks in league.runs.families.items() if len(tasks) > 1}
    parts += [
        f"Family {quoted(family)}: {listed([league.counted[place] for place in tasks])}."
        for family, tasks in several.items()
    ]
    parts.append(
        "Methods share their ranks where they lie below the first of them by no more than two standard errors of the "
        "difference over seeds, or by no more than two test images in each task."
    )
    if ranking.testable:
        friedman = ranking.friedman
        parts.append(
            f"Friedman's test: chi² = {friedman.chi2:.2f}, F = {friedman.f:.2f}, p {p_text(friedman.p)}; "
            f"level {ranking.level:.3g}."
        )
        parts.append("Each family is one observation, so only differences that most families share are found.")
    else:
        parts.append(why_untested(league))
    if ranking.differs:
        apart = ranking.critical_difference
        parts[-1:-1] = [
            f"Nemenyi's critical difference at {ranking.level:.3g}: {apart:.2f} ranks; bold: not told apart from the "
            "first.",
            f"p: of the difference of mean ranks to the control's, two-sided, adjusted by Holm, to be below "
            f"{ranking.level:.3g}.",
        ]
    elif ranking.testable:
        parts.insert(-1, "It tells no two methods apart, so no pair is tested.")
    if ranking.intervals():
        parts.append(
            "Intervals of mean ranks are for other families of the same kind. All are as wide as for methods that are "
            "alike, so that of a method whose ranks differ much more between families than those of the others is too "
            "narrow."
        )
    if league.left_out:
        parts.append(f"Not ranked, as a method lacks a seed there or is left out: {', '.join(league.left_out)}.")
    return " ".join(parts)


def _together(league: League, metric: str) -> Table:
    """Returns the interquartile mean of each method, and how probably one of its runs is above one of the control."""
    assert league.runs is not None
    means, above = league.runs.interquartile_means(), league.runs.improvements(league.control)
    columns = [
        _methods(league),
        *_measured(metric, "interquartile mean", [means[name] for name in league.order]),
        *_measured("probability", "better than the control", [above.get(name) for name in league.order]),
    ]
    note = (
        "The interquartile mean is that of the middle half of all runs, over tasks and seeds, so a few seeds that fail "
        "do not move it; each task counts the same, whatever its family. The probability is that of a run to score "
        "above a run of the control on the same task; equal scores count as one half."
    )
    if any(measure.interval for measure in means.values()):
        note += (
            " Intervals (95 %) are for other seeds of the same tasks, by a stratified bootstrap, as in rliable "
            "(Agarwal et al. 2021). Of few seeds they are too narrow: of three they held the true mean in about 85 % "
            "of simulated cases. Nothing is tested by them."
        )
    return Table("together", "All runs together", columns, note=note)


def _measured(head: str, group: str, measures: Sequence[Measure | None]) -> list[Column]:
    columns = [Column(head, ["" if measure is None else fixed(measure.value) for measure in measures], group)]
    if any(measure and measure.interval for measure in measures):
        ends = ["" if measure is None else between(measure.interval) for measure in measures]
        columns.append(Column("95 % interval", ends, group, under=True))
    return columns


def properties(result: StudyResult, league: League) -> Table:
    """Returns one column per method, one row per property: scores on each task and larger images, time, parameters."""
    names = league.order
    rows: list[tuple[str, list[str]]] = []
    for task, arms in league.arms.items():
        rows.append((task, _scores(names, {name: row.test for name, row in arms.items()})))
        for side in sorted({side for row in arms.values() for side in row.test_sizes}):
            at = {name: row.test_sizes[side] for name, row in arms.items() if side in row.test_sizes}
            rows.append((f"{task}, tested at {side} px", _scores(names, at)))
    every = [row for arms in league.arms.values() for row in arms.values()]
    unit, size = train_time_unit(every)
    times = {name: [training_s(arms[name]) for arms in league.arms.values() if name in arms] for name in names}
    known = {name: [time for time in some if time is not None] for name, some in times.items()}
    whole = {name: len(known[name]) == len(times[name]) > 0 for name in names}
    rows.append((f"time of a run ({unit})", [f"{fmean(known[n]) / size:.1f}" if whole[n] else "" for n in names]))
    most = [max((parameters(arms[name]) for arms in league.arms.values() if name in arms), default=0) for name in names]
    rows.append(("parameters (most)", [f"{count:,}" for count in most]))
    columns = [Column("property", [name for name, _ in rows], words=True)]
    columns += [Column(name, [cells[place] for _, cells in rows]) for place, name in enumerate(names)]
    metric = metric_words(result.edition.study.score.test)
    note = f"Scores: the {metric}, mean over seeds (1/3: of one seed of three)."
    note += " The time is that of all epochs of a run: the median over seeds, then the mean over tasks."
    if mixed_machines(result):
        note += " Runs trained on different machines, so their times cannot be compared exactly."
    return Table("properties", f"What each method can do: the {metric} by property", columns, note=note)


def _scores(names: Sequence[str], by_method: Mapping[str, Scores]) -> list[str]:
    """Returns means of scores; if seeds are missing, with how many there are: `0.9000 (1/3)`."""
    shares = {name: "" if scores.complete else f" ({scores.n}/{scores.asked})" for name, scores in by_method.items()}
    return [f"{fixed(by_method[name].mean)}{shares[name]}".strip() if name in by_method else "" for name in names]


LAW, IMAGES, INTERVAL = "power law", "images for a score of", "95 % interval"
NOTE = (
    "For each seed the power law limit − fall × images^(−exponent) was fitted to its scores (least squares; the limit "
    "at most a perfect score). Limit and exponent: means over seeds{}. Residual: the root of the mean squared distance "
    "of scores from the law; where it is large, the law does not hold. Images for a score: the geometric mean over "
    "seeds of where the law reaches it, within the numbers of images that were tried."
)


def efficiency(result: StudyResult) -> Table | None:
    """Returns the power laws, and how many images each level needs.

    None if no trials form a curve with a shared seed.
    """
    curves = [curve for curve in result.efficiency if curve.laws]
    if not curves:
        return None
    columns = [
        Column("trials", [curve.name for curve in curves], words=True),
        Column("images tried", [f"{min(curve.scores):,} to {max(curve.scores):,}" for curve in curves]),
        *_over_seeds(curves, "limit"),
        *_over_seeds(curves, "exponent"),
        Column(
            "residual",
            [fixed(residual.mean) if (residual := curve.over_seeds("error")) else "" for curve in curves],
            LAW,
        ),
    ]
    for share in LEVELS:
        columns += _images(number(curves[0].level(share)), [curve.needed(share) for curve in curves])
    intervals = any(column.head.endswith(INTERVAL) for column in columns)
    title = f"How the {metric_words(result.edition.study.score.test)} grows with the number of training images"
    note = NOTE.format(", with Student's 95 % interval" * intervals)
    if any(scores.diverged for curve in curves for scores in curve.scores.values()):
        note += " A seed that diverged at some number of images has no law."
    return Table("efficiency", title, columns, note=note)


def _over_seeds(curves: list[Curve], name: str) -> list[Column]:
    """Returns a number of the laws over seeds, with its interval."""
    known = [curve.over_seeds(name) for curve in curves]
    columns = [Column(name, [fixed(estimate.mean) if estimate else "" for estimate in known], LAW)]
    if any(estimate is not None and estimate.testable for estimate in known):
        intervals = [between(estimate.interval()) if estimate else "" for estimate in known]
        columns.append(Column(f"{name}, {INTERVAL}", intervals, LAW, under=True))
    return columns


def _images(level: str, needed: list[Needed | None]) -> list[Column]:
    """Returns how many images a level needs, with the interval over seeds where every seed reaches it."""
    columns = [Column(level, [_needed_images(need) for need in needed], IMAGES)]
    intervals = [need.estimate.interval() if need and need.estimate else None for need in needed]
    if any(intervals):
        cells = [f"{math.exp(ends[0]):,.0f} to {math.exp(ends[1]):,.0f}" if ends else "" for ends in intervals]
        columns.append(Column(f"{level}, {INTERVAL}", cells, IMAGES, under=True))
    return columns


def _needed_images(needed: Needed | None) -> str:
    if needed is None:
        return ""
    count = len(needed.sizes)
    for outside, end in ((needed.beyond, f"over {needed.most:,}"), (needed.below, f"below {needed.least:,}")):
        if outside:
            return end + (f" ({outside} of {plural(count, 'seed')})" if outside < count else "")
    return f"{math.exp(needed.estimate.mean):,.0f}" if needed.estimate else ""


STEP, BAR = 1.0, 0.38
"""The height of a name's line, and of a bar of a group."""
LINE_IN = 0.2
"""Units: inches a name's line."""


def critical_difference(result: StudyResult) -> Plot | None:
    """Returns the diagram; None for a study without tasks, or where no task has all its runs."""
    league = result.league
    if league is None or league.ranking is None:
        return None
    return Plot("critical_difference", _caption_critical_difference(league), lambda: _draw_critical_difference(league))


def _draw_critical_difference(league: League) -> Figure:
    assert league.ranking is not None
    means, groups = league.ranking.means, league.groups
    lines = math.ceil(len(means) / 2)
    depth = BAR * (len(groups) + 1) + STEP * lines
    fig = empty_figure(LINE_IN * (depth / STEP + 3.2))
    axes = fig.add_subplot()
    axes.patch.set_alpha(0)
    axes.set_axis_off()
    most = len(means)
    axes.set(xlim=(0.8, most + 0.2), ylim=(-depth - 0.4, 2.6))  # the layout makes room for the names at both sides
    _scale(axes, most)
    if league.ranking.differs:
        apart = league.ranking.critical_difference
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
        _method(axes, f"{name} {mean:.2f}", mean, y, (1 if left else most, left), strong=name == league.control)
    return fig


def _scale(axes: Axes, most: int) -> None:
    """Draws the line of ranks, 1 at the left."""
    axes.plot([1, most], [0, 0], color=MUTED, linewidth=1)
    for rank in range(1, most + 1):
        axes.plot([rank, rank], [0, 0.22], color=MUTED, linewidth=1)
        axes.annotate(f"{rank}", (rank, 0.22), xytext=(0, 2), textcoords="offset points", ha="center", va="bottom",
                      color=MUTED, fontsize=7.5)  # fmt: skip


def _method(axes: Axes, text: str, mean: float, y: float, end: tuple[int, bool], *, strong: bool) -> None:
    """Draws a line from a mean rank down and out to the name. `end`: where it ends, and whether on the left side."""
    at, left = end
    ink = TRIAL_COLORS[0] if strong else INK
    outer = min(at, mean) - 0.1 if left else max(at, mean) + 0.1
    axes.plot([mean, mean, outer], [0, y, y], color=ink if strong else FAINT, linewidth=1, zorder=0.5)
    axes.plot([mean], [0], marker="o", markersize=3.5, color=ink)
    axes.annotate(text, (outer, y), xytext=(-3 if left else 3, 0), textcoords="offset points",
                  ha="right" if left else "left", va="center", color=ink, fontsize=8.5)  # fmt: skip


def _caption_critical_difference(league: League) -> str:
    assert league.ranking is not None
    ranking = league.ranking
    return sentences((
        f"The mean rank of each method over {league.over}; 1, at the left, is the best.",
        f"Friedman's test of whether all are alike: p {p_text(ranking.friedman.p)}, level {ranking.level:.3g}."
        if ranking.testable else "",
        "A bar joins methods whose mean ranks are nearer than the critical difference of Nemenyi's test, so that they "
        "are not told apart." if ranking.differs and league.groups else "",
        "The bar joins all of them, for Friedman's test does not tell any apart."
        if ranking.testable and not ranking.differs else "",
        why_untested(league),
        f"In color: {league.control}, with which the others are compared.",
    ))  # fmt: skip


PANEL_IN = 1.35
"""Units: inches of height."""


def performance_profiles(result: StudyResult) -> Plot | None:
    """Returns the figure; None for a study without tasks, or where no task has all its runs."""
    league = result.league
    if league is None or league.runs is None:
        return None
    profiles, metric = league.runs.profiles(), metric_words(result.edition.study.score.test)
    return Plot(
        "profiles",
        _caption_performance_profiles(league, profiles, metric),
        lambda: _draw_performance_profiles(league, profiles, metric),
    )


def _draw_performance_profiles(league: League, profiles: dict[str, Profile], metric: str) -> Figure:
    others = [name for name in league.order if name != league.control]
    columns = 4
    fig, panels = panel_grid(len(others), columns, PANEL_IN)
    for place, (axes, name) in enumerate(zip(panels, others, strict=True)):
        _line(axes, profiles[league.control], TRIAL_COLORS[0], 1.0)
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


def _caption_performance_profiles(league: League, profiles: dict[str, Profile], metric: str) -> str:
    some = any(profile.low is not None for profile in profiles.values())
    return sentences((
        f"Performance profiles over {league.over}: the share of a method's runs whose {metric} is above the value on "
        "the axis. A line that is higher everywhere is better.",
        f"In color: {league.control}, in each panel.",
        "Bands: 95 % intervals at each value, for other seeds, by a stratified bootstrap." if some else "",
    ))  # fmt: skip
