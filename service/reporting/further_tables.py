"""The further tables of results: a search's points, parents, and what did not run to the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.roles import Role
from search_spaces.study import Ablation
from search_spaces.words import duration, listed, plural, quoted, setting_words
from service.analysis.best import ranked
from service.analysis.estimates.tuning import ArmTuning, tunings
from service.analysis.format import metric_words, spread, two
from service.analysis.trial_result import TrialResult
from service.reporting.costs import cost_columns
from service.reporting.results_table import score_columns, seeds
from service.reporting.table import Column, Table
from service.storage.history import ancestors
from trainables.spec import SpecError

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


def tuned(result: StudyResult) -> Table | None:
    """What the tuning chose for each arm; None where arms are not tuned."""
    found, plan = tunings(result), result.edition.study.plan
    if not found or not isinstance(plan, Ablation) or plan.tune is None:
        return None
    metric = metric_words(result.edition.study.score.metric)
    chosen = [one.chosen for one in found]
    columns = [
        Column("arm", [one.arm for one in found], words=True),
        Column("trials", [one.trials_words for one in found]),
        Column("chosen", [f"#{row.trial.label}" if row else "" for row in chosen], words=True),
        Column("tuned to", [_values(one) for one in found], words=True),
        Column("given", [_given(result, one.arm) for one in found], words=True, under=True),
        Column("mean ± SD", [_score(row) for row in chosen], metric),
        Column("time of all trials", [duration(one.seconds) if one.seconds else "" for one in found]),
    ]
    count, paths = plural(plan.tune.trials, "trial"), plural(len(plan.tune.paths), "path")
    return Table("tuned", f"Each arm is tuned over {count} of {paths}", columns, note=_note(result, plan, metric))


def tuning_points(result: StudyResult) -> Table | None:
    """Every trial of the tuning on validation: arm by arm, in the order in which they were tried."""
    found = tunings(result)
    rows = [row for one in found for row in one.rows]
    if not rows:
        return None
    chosen = [one.chosen for one in found]
    columns = [
        Column("trial", [f"#{row.trial.label} {row.name}" for row in rows], words=True),
        Column("mean ± SD", [_score(row) for row in rows], metric_words(result.edition.study.score.metric)),
        Column("seeds", [seeds(row) for row in rows]),
        Column("epochs", [str(row.answer.epoch) for row in rows]),
        Column("state", [row.answer.status for row in rows], words=True),
    ]
    strong = frozenset(place for place, row in enumerate(rows) if row in chosen)
    return Table("tuning", f"All {plural(len(rows), 'trial')} of the tuning", columns, strong, folded=True)


def tuned_to(result: StudyResult) -> list[Column]:
    """A column with the values of each arm that were tuned, for the table of what arms change."""
    cells = [f"{one.values} (#{one.chosen.trial.label})" if one.chosen else "" for one in tunings(result)]
    return [Column("tuned to", cells, words=True)] if any(cells) else []


def _score(row: TrialResult | None) -> str:
    return spread(row.validation.mean, row.validation.std) if row else ""


def _values(one: ArmTuning) -> str:
    if one.settled and one.chosen is None:
        return "not tuned"
    return one.values or ("left out" if one.ended == one.asked else "not yet")


def _given(result: StudyResult, arm: str) -> str:
    """The values that the study gives an arm at the tuned paths; what was chosen replaces them."""
    plan = result.edition.study.plan
    assert isinstance(plan, Ablation)
    assert plan.tune is not None
    recipe = result.edition.study.recipe(plan.arms[arm])
    values = {}
    for path in plan.tune.paths:
        try:
            values[path] = recipe.get(path)
        except SpecError:  # a path that opens with a value of another one
            continue
    return ", ".join(setting_words(values))


def _note(result: StudyResult, plan: Ablation, metric: str) -> str:
    assert plan.tune is not None
    every = [seed for one in tunings(result) for row in one.rows for seed in row.runs]
    on = f" ({min(every)}{f' to {max(every)}' if max(every) > min(every) else ''})" if every else ""
    return (
        f"A trial is scored by its {metric} over {plural(plan.tune.seeds, 'seed')}{on}, on which no arm is compared. "
        "An arm gets the values of its highest trial, of equal ones of the first. The time is that of all runs that "
        "tuned the arm; no other table counts it."
    )
