"""A study's numbers as text: runs as CSV, trials as a LaTeX table. The report's folder holds the same and more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from service.analysis.tables import runs_table
from service.reporting.latex import latex
from service.reporting.paper_table import paper_table
from service.reporting.results_table import measured
from service.reporting.table import frame_csv
from trainables.spec import LocusError

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


def as_csv(result: StudyResult) -> str:
    """A row a run."""
    return frame_csv(runs_table(result))


def as_latex(result: StudyResult, columns: Sequence[str] = ()) -> str:
    """The table of results, with the rules of booktabs. `columns`: names such as score and p, or `all`.

    Raises: LocusError where no trial has an answer; SpecError for a column that the study does not have.
    """
    table = measured(result)
    if table is None:
        raise LocusError(f"{result.edition.id} must have a trial with an answer to be exported, got none")
    return latex(paper_table(result, table, columns), result.edition.id)
