"""The tables of a league: methods by mean rank over tasks, and a row a property with every method's score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from service.analysis.estimates.league import League
from service.analysis.format import fixed, metric_words, p_text
from service.analysis.statistics import ALPHA, Scores
from service.reporting.costs import mixed_machines, parameters, train_time_unit, training_s
from service.reporting.table import Column, Table

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


def league_tables(result: StudyResult) -> list[Table]:
    """The league and the properties; none for a study without tasks."""
    found = result.league
    return [] if found is None else [*_league(found), properties(result, found)]


def _league(found: League) -> list[Table]:
    if found.ranking is None:
        return []
    ranking, names = found.ranking, found.order
    told_apart = ranking.friedman.p < ALPHA
    against = ranking.against(found.control) if told_apart else {}
    control = [" (control)" if name == found.control else "" for name in names]
    columns = [
        Column("method", [name + mark for name, mark in zip(names, control, strict=True)], words=True),
        Column("mean rank", [f"{ranking.means[name]:.2f}" for name in names]),
        *(
            [Column("p (Holm)", [_p(against[one].p) if one in against else "" for one in names], "against the control")]
            if told_apart
            else []
        ),
        *(Column(task, [f"{ranks[name]:g}" for name in names], "rank") for task, ranks in ranking.by_task.items()),
    ]
    first = {names[0], *found.alike} if told_apart else set()
    strong = frozenset(place for place, name in enumerate(names) if name in first)
    return [Table("league", f"The league over {ranking.tasks} tasks", columns, strong, _league_note(found))]


def _p(p: float) -> str:
    return p_text(p).removeprefix("= ")


def _league_note(found: League) -> str:
    assert found.ranking is not None
    friedman = found.ranking.friedman
    parts = [
        "Methods are ranked by their mean test scores on each task: 1 is the best, equal scores share their ranks.",
        f"Friedman's test: chi² = {friedman.chi2:.2f}, F = {friedman.f:.2f}, p {p_text(friedman.p)}.",
        "Each task is one observation, so only differences that most tasks share are found.",
    ]
    if friedman.p < ALPHA:
        apart = found.ranking.critical_difference()
        parts[2:2] = [
            f"Nemenyi's critical difference at {ALPHA:g}: {apart:.2f} ranks; bold: not told apart from the first.",
            "p: of the difference of mean ranks to the control's, two-sided, adjusted by Holm.",
        ]
    else:
        parts.insert(2, "It tells no two methods apart, so no pair is tested.")
    if found.left_out:
        parts.append(f"Not ranked, as a method lacks a seed there or is left out: {', '.join(found.left_out)}.")
    return " ".join(parts)


def properties(result: StudyResult, found: League) -> Table:
    """A column a method, a row a property: scores on each task and on larger images, time, parameters."""
    names = found.order
    rows: list[tuple[str, list[str]]] = []
    for task, arms in found.arms.items():
        rows.append((task, _scores(names, {name: row.test for name, row in arms.items()})))
        for side in sorted({side for row in arms.values() for side in row.test_sizes}):
            at = {name: row.test_sizes[side] for name, row in arms.items() if side in row.test_sizes}
            rows.append((f"{task}, tested at {side} px", _scores(names, at)))
    every = [row for arms in found.arms.values() for row in arms.values()]
    unit, size = train_time_unit(every)
    times = {name: [training_s(arms[name]) for arms in found.arms.values() if name in arms] for name in names}
    known = {name: [time for time in some if time is not None] for name, some in times.items()}
    whole = {name: len(known[name]) == len(times[name]) > 0 for name in names}
    rows.append((f"time of a run ({unit})", [f"{fmean(known[n]) / size:.1f}" if whole[n] else "" for n in names]))
    most = [max((parameters(arms[name]) for arms in found.arms.values() if name in arms), default=0) for name in names]
    rows.append(("parameters (most)", [f"{count:,}" for count in most]))
    columns = [Column("property", [name for name, _ in rows], words=True)]
    columns += [Column(name, [cells[place] for _, cells in rows]) for place, name in enumerate(names)]
    metric = metric_words(result.edition.study.score.test)
    note = f"Scores: the {metric}, mean over seeds (1/3: of one seed of three)."
    note += " The time is that of all epochs of a run: the median over seeds, then the mean over tasks."
    if mixed_machines(result):
        note += " Runs trained on different machines, so their times cannot be compared exactly."
    return Table("properties", f"What each method can do: the {metric} by property", columns, note=note)


def _scores(names: Sequence[str], found: Mapping[str, Scores]) -> list[str]:
    """Means of scores; where seeds are missing, with how many there are: `0.9000 (1/3)`."""
    shares = {name: "" if one.complete else f" ({one.n}/{one.asked})" for name, one in found.items()}
    return [f"{fixed(found[name].mean)}{shares[name]}".strip() if name in found else "" for name in names]
