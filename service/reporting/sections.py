"""The further tables of results: a search's points, parents, and what did not run to the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.roles import Role
from search_spaces.study import Ablation
from search_spaces.words import listed, plural, quoted
from service.analysis.best import ranked
from service.analysis.format import metric_words, spread, two
from service.reporting.costs import cost_columns
from service.reporting.results_table import score_columns, seeds
from service.reporting.table import Column, Table
from service.storage.history import ancestors

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


def points(result: StudyResult) -> Table | None:
    """Every point of a search on validation, best first, then by how far it came."""
    return None if isinstance(result.edition.study.plan, Ablation) else _points(result, "trial", "point", "points")


def random_points(result: StudyResult) -> Table | None:
    """The same of the random points that a search is compared with."""
    return _points(result, "rival", "random point", "random")


def _points(result: StudyResult, role: Role, noun: str, name: str) -> Table | None:
    places = {trial.label: place for place, trial in enumerate(ranked(result.history))}
    rows = sorted(result.of(role), key=lambda row: places[row.trial.label])
    metric = metric_words(result.edition.study.score.metric)
    columns = [
        Column("point", [f"#{row.trial.label} {row.name}" for row in rows], words=True),
        Column("mean ± SD", [spread(row.validation.mean, row.validation.std) for row in rows], metric),
        Column("seeds", [seeds(row) for row in rows]),
        Column("epochs", [str(row.answer.epoch) for row in rows]),
        Column("state", [row.answer.status for row in rows], words=True),
        *cost_columns(rows),
    ]
    if not rows:
        return None
    best = result.winners if role == "trial" else [result.random] if result.random else []
    confirmed = {row.trial.number for row in best}
    strong = frozenset(place for place, row in enumerate(rows) if row.trial.number in confirmed)
    return Table(name, f"All {plural(len(rows), noun)} on {metric}", columns, strong, folded=True)


def rungs(result: StudyResult) -> Table | None:
    """Whether the order of a search's trials at each rung was that of their final scores."""
    found = result.rungs
    plan = result.edition.study.plan
    known = any(rung.correlation is not None for rung in found) or str(result.saved)
    if isinstance(plan, Ablation) or not found or not known:
        return None
    columns = [
        Column("after epoch", [str(rung.epoch) for rung in found]),
        Column("trials measured", [str(rung.reached) for rung in found]),
        Column("completed", [str(rung.ended) for rung in found]),
        Column("rank correlation", ["" if one.correlation is None else two(one.correlation) for one in found]),
    ]
    any_stopped = any(row.answer.status == "stopped" for row in result.of("trial"))
    stopped = (
        "Trials that were stopped have no final score: the correlation is that among the better ones, which is lower "
        "than among all."
    )
    note = (
        "Rank correlation (Spearman) of the first seed's validation score there with the trial's final mean over all "
        f"seeds, over the trials that completed. {stopped if any_stopped else 'No trial was stopped.'}"
        f" {result.saved}".rstrip()
    )
    title = "How well early scores order the trials" if plan.stop is None else "How early stopping did"
    return Table("rungs", title, columns, note=note)


def parents(result: StudyResult) -> Table | None:
    """The runs that other runs start from or learn from, on their own data; None where there are none."""
    rows = result.of("parent")
    if not rows:
        return None
    metrics = [metric_words(row.trial.score.test) for row in rows]
    mixed = len({*metrics}) > 1
    group = "test score" if mixed else metrics[0]
    columns = [
        Column("parent", [f"{row.trial.label} {row.name}" for row in rows], words=True),
        *score_columns(group, [row.test for row in rows]),
        *([Column("metric", metrics, group, words=True)] if mixed else []),
        Column("seeds", [seeds(row) for row in rows]),
        Column("epochs", [str(row.answer.epoch) for row in rows]),
        Column("state", [row.answer.status for row in rows], words=True),
        Column("needed by", [listed(_children(result, row)) for row in rows], words=True),
        *cost_columns(rows),
    ]
    note = "Other trials start from a parent's weights, or learn from them. Its score is that of its own data."
    return Table("parents", f"{plural(len(rows), 'parent')} of trials", columns, note=note)


def _children(result: StudyResult, parent: TrialResult) -> list[str]:
    """The trials with a run that needs a parent, the parent's own parents left out."""
    keys = {run.run.key for run in parent.runs.values()}
    return [
        quoted(row.name) if isinstance(result.edition.study.plan, Ablation) else f"#{row.trial.label}"
        for row in result.rows
        if row.trial.role != "parent"
        and any(one.key in keys for run in row.runs.values() for one in ancestors(run.run))
    ]


def _who(result: StudyResult, row: TrialResult) -> str:
    """An arm by its name; a point, a confirmation or a parent with its number."""
    if row.trial.role != "trial":
        return f"{row.trial.label} {row.name}"
    return row.name if isinstance(result.edition.study.plan, Ablation) else f"#{row.trial.label} {row.name}"


def unfinished(result: StudyResult) -> Table | None:
    """Runs that were stopped, diverged, or failed, and why. Folded where early stopping is all that happened."""
    ends = ("failed", "diverged", "stopped")
    runs = [(row, run) for row in result.rows for run in row.runs.values() if run.state.status in ends]
    runs.sort(key=lambda pair: ends.index(pair[1].state.status))
    if not runs:
        return None
    columns = [
        Column("trial", [_who(result, row) for row, _ in runs], words=True),
        Column("seed", [str(run.run.seed) for _, run in runs]),
        Column("end", [run.state.status for _, run in runs], words=True),
        Column("why", [run.reason for _, run in runs], words=True),
    ]
    planned = {run.state.status for _, run in runs} == {"stopped"}
    return Table("unfinished", f"{plural(len(runs), 'run')} that did not run to the end", columns, folded=planned)
