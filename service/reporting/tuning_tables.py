"""The tables of an ablation whose arms were tuned: what was chosen for each arm, and every trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from search_spaces.words import duration, plural, setting_words
from service.analysis.estimates.tuning import ArmTuning, tunings
from service.analysis.format import metric_words, spread
from service.analysis.trial_result import TrialResult
from service.reporting.results_table import seeds
from service.reporting.table import Column, Table
from trainables.spec import SpecError

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


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
