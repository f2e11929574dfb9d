"""Tables of a result: a row a run, and a row a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from search_spaces.words import value_words
from service.analysis.format import between, fixed, metric_words, p_text, signed
from trainables.recipe.outcome import at_image_size

FIRST = ("trial", "name", "n", "mean", "test_mean", "test_low", "test_high", "difference", "p_holm")
"""The columns of trials that come first."""

if TYPE_CHECKING:
    from service.analysis.statistics import Scores
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import RunResult, TrialResult


def runs_table(result: StudyResult) -> pd.DataFrame:
    """A row a run, in the order in which the trials were added; without the seeds that a stopped trial does not run."""
    decided = ("stopped", "diverged")
    asked = ((row, run) for row in result.rows for run in row.runs.values())
    rows = [(row, run) for row, run in asked if run.state.status != "missing" or row.answer.status not in decided]
    return pd.DataFrame([_run(result, row, run) for row, run in rows])


def trials_table(result: StudyResult) -> pd.DataFrame:
    """A row a trial, what matters most first. `low` and `high` are 95 % intervals; `difference` is to the baseline, on
    the test set.

    `difference_low` and `difference_high` are at the level of Holm's test, as `p_holm` is.
    """
    table = pd.DataFrame([_trial(result, row) for row in result.rows])
    first = [name for name in FIRST if name in table]
    return table[[*first, *table.columns.difference(first, sort=False)]]


def brief_table(result: StudyResult) -> pd.DataFrame:
    """A row a trial in words, as narrow as a cell of a notebook: scores, the test score's interval, the difference."""
    return pd.DataFrame([_brief(result, row) for row in result.rows])


def _brief(result: StudyResult, row: TrialResult) -> dict[str, str | int]:
    score = result.edition.study.score
    gap = result.differences.get(row.name) if row.trial.role == "trial" else None
    p = p_text(gap.p).removeprefix("= ") if gap else ""
    return {
        "#": row.trial.label,
        "trial": row.name,
        "n": row.validation.n,
        metric_words(score.metric): fixed(row.validation.mean),
        metric_words(score.test): fixed(row.test.mean),
        "95 % interval": between(row.test.interval),
        **({"difference": signed(gap.mean) if gap else "", "p (Holm)": p} if result.differences else {}),
        "state": row.answer.status,
    }


def varied(result: StudyResult, row: TrialResult) -> dict[str, Any]:
    """What a trial has at the paths in which the trials of its study differ."""
    return {path: _cell(row.value(path)) for path in result.edition.study.paths()}


def _cell(value: Any) -> Any:
    """A number or a word as it is; a list or a node of a recipe in words."""
    return value if value is None or isinstance(value, bool | int | float | str) else value_words(value)


def _run(result: StudyResult, row: TrialResult, run: RunResult) -> dict[str, Any]:
    score = result.edition.study.score
    completed = run.state.status == "completed"
    tests = [score.test, *(at_image_size(score.test, side) for side in row.test_sizes)]
    return {
        "trial": row.trial.label,
        "name": row.name,
        "role": row.trial.role,
        **varied(result, row),
        "seed": run.run.seed,
        "outcome": run.state.status,
        "epochs": run.epochs,
        score.metric: run.final(score.metric),
        **{test: run.final(test) if completed else None for test in tests},
        "time_s": round(run.seconds, 3),
        "key": run.run.key,
        "code": run.code,
        "reused": run.state.reused,
        "adopted": run.adopted,
        "reason": run.reason,
    }


def _trial(result: StudyResult, row: TrialResult) -> dict[str, Any]:
    return {
        "trial": row.trial.label,
        "name": row.name,
        "role": row.trial.role,
        **varied(result, row),
        "status": row.answer.status,
        "n": row.validation.n,
        "asked": row.answer.asked,
        **_scores("", row.validation),
        **_scores("test_", row.test),
        **{
            name: value
            for side, at in row.test_sizes.items()
            for name, value in _scores(f"test_at_{side}_", at).items()
        },
        **(_difference(result, row) if result.differences else {}),
        "diverged": len(row.test.diverged),
        "reason": row.reason,
    }


def _scores(prefix: str, scores: Scores) -> dict[str, float | None]:
    low, high = scores.interval or (None, None)
    return {f"{prefix}mean": scores.mean, f"{prefix}std": scores.std, f"{prefix}low": low, f"{prefix}high": high}


def _difference(result: StudyResult, row: TrialResult) -> dict[str, float | None]:
    names = ("difference", "difference_low", "difference_high", "p", "p_holm")
    if row.trial.role != "trial" or row.name not in result.differences:
        return dict.fromkeys(names)
    gap = result.differences[row.name]
    return dict(zip(names, (gap.mean, *(gap.interval or (None, None)), gap.estimate.p(), gap.p), strict=True))
