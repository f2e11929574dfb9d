"""Tables of a study's result: one has a row for each run, two have a row for each trial."""

from __future__ import annotations

import html
from collections.abc import Iterable
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pandas as pd

from search_spaces.words import value_words
from service.analysis.format import between, fixed, metric_words, p_text, signed
from service.analysis.probes import probe_values
from trainables.recipe.outcome import at_image_size

FIRST = ("trial", "name", "n", "mean", "test_mean", "test_low", "test_high", "difference", "p_holm")
"""The columns that come first in the table of trials."""
DIFFERENCE = ("difference", "difference_low", "difference_high", "p", "p_holm", "pairs")
NONE = "no trial of {} has begun yet"

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import RunResult, TrialResult


class Table(pd.DataFrame):  # type: ignore[misc]
    """A table that, if it is empty, prints the reason; tables that pandas derives from it do not."""

    @classmethod
    def of(cls, rows: Iterable[dict[str, Any]], why: str, columns: list[str] | None = None) -> Table:
        """Returns the table of some rows. `why` is the sentence that it prints if there are no rows."""
        table = cls([*rows], columns=columns)
        table.attrs["why"] = why
        return table

    def __repr__(self) -> str:
        return str(self.attrs["why"]) if self.empty and "why" in self.attrs else super().__repr__()

    def _repr_html_(self) -> str | None:
        return f"<p>{html.escape(repr(self))}</p>" if self.empty and "why" in self.attrs else super()._repr_html_()


def runs_table(result: StudyResult) -> pd.DataFrame:
    """Returns the table with one row for each run, in the order in which the trials were added.

    It leaves out the seeds that a stopped or diverged trial did not run.
    """
    score, rows = result.edition.study.score, []
    for row in result.rows:
        tests = [score.test, *(at_image_size(score.test, side) for side in row.test_sizes)]
        for run in row.runs.values():
            if not run.state.was_run and row.answer.status in ("stopped", "diverged"):
                continue
            completed = run.state.status == "completed"
            rows.append(
                {
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
                    "device_s": round(run.device_s, 3),
                    "images_per_s": run.images_per_s,
                    "key": run.run.key,
                    "code": run.code,
                    "reused": run.state.reused,
                    **probe_values(row.probes.get(run.run.seed), result.edition.study.probes),
                    "reason": run.reason,
                }
            )
    return Table.of(rows, NONE.format(result.edition.id))


def trials_table(result: StudyResult) -> pd.DataFrame:
    """Returns the table with one row for each trial, the most important columns first.

    `failed` is how many seeds failed; `low` and `high` are the 95 % interval of the mean. `difference` is the test
    score minus that of the baseline, over `pairs` seeds; in a study with axes, minus that of the arm in the column
    `minus`. `p` is the p-value of this difference alone; `p_holm` is adjusted for all differences and for looks, as the
    interval from `difference_low` to `difference_high` is.
    """
    plan, rows = result.edition.study.plan, []
    for row in result.rows:
        is_arm = row.trial.role == "trial"
        cells = {
            "trial": row.trial.label,
            "name": row.name,
            "role": row.trial.role,
            **varied(result, row),
            "status": row.answer.status,
            "n": row.validation.n,
            "asked": row.answer.asked,
        }
        sides = {f"test_at_{side}_": scores for side, scores in row.test_sizes.items()}
        for prefix, scores in {"": row.validation, "test_": row.test, **sides}.items():
            low, high = scores.interval or (None, None)
            values = (scores.mean, scores.std, len(scores.failed), low, high)
            cells |= zip((f"{prefix}{name}" for name in ("mean", "std", "failed", "low", "high")), values, strict=True)
        if plan.axes:  # the difference is not to the same arm for all arms
            cells["minus"] = plan.compared_with(row.name) if is_arm else None
        if result.differences:
            gap = result.differences.get(row.name) if is_arm else None
            low, high = (gap.interval if gap else None) or (None, None)
            numbers = (gap.mean, low, high, gap.estimate.p(), gap.p, gap.estimate.n) if gap else (None,) * 6
            cells |= zip(DIFFERENCE, numbers, strict=True)
        rows.append(cells | {"diverged": len(row.test.diverged), **costs(row.runs.values()), "reason": row.reason})
    names = [*dict.fromkeys(name for row in rows for name in row)]
    columns = sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    return Table.of(rows, NONE.format(result.edition.id), columns)


def brief_table(result: StudyResult) -> pd.DataFrame:
    """Returns a narrow table for a notebook, a row for each trial: scores, interval of the test score, difference."""
    score, rows = result.edition.study.score, []
    for row in result.rows:
        gap = result.differences.get(row.name) if row.trial.role == "trial" else None
        p = p_text(gap.p).removeprefix("= ") if gap else ""
        cells = {
            "#": row.trial.label,
            "trial": row.name,
            "n": row.validation.n,
            "failed": len(row.test.failed),
            metric_words(score.metric): fixed(row.validation.mean),
            metric_words(score.test): fixed(row.test.mean),
            "95 % interval": between(row.test.interval),
        }
        if result.differences:
            cells |= {"difference": signed(gap.mean) if gap else "", "p (Holm)": p}
        rows.append(cells | {"state": row.answer.status})
    return Table.of(rows, NONE.format(result.edition.id))


def varied(result: StudyResult, row: TrialResult) -> dict[str, Any]:
    """Returns the values of a trial at the paths in which the trials of its study differ.

    A number or a word stays as it is; a list or a node of a recipe becomes words.
    """
    values = {path: row.value(path) for path in result.paths}
    return {
        path: value if value is None or isinstance(value, bool | int | float | str) else value_words(value)
        for path, value in values.items()
    }


def costs(runs: Iterable[RunResult]) -> dict[str, float | None]:
    """Returns the time that some runs took together, and the mean over runs of training images per second.

    A run that another study trained counts, too. Units: `time_s` and `device_s` in seconds.
    """
    begun = [run for run in runs if run.epochs]
    rates = [rate for run in begun if (rate := run.images_per_s) is not None]
    return {
        "time_s": round(sum(run.seconds for run in begun), 3),
        "device_s": round(sum(run.device_s for run in begun), 3),
        "images_per_s": fmean(rates) if rates else None,
    }
