"""The table of results as a paper shows it: few columns, an interval beside its number, a short caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from search_spaces.words import plural
from service.reporting.results_table import DIVERGED, claimed_words, shown, star_words
from service.reporting.table import Column, Table
from trainables.spec import SpecError

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

ALL = "all"
TESTED = {"difference-interval", "p"}
OURS = {"difference", *TESTED}
DIFFERENCES = {*OURS, "published-difference"}
HEAD = "minus the baseline, paired"
"""Over the differences: the name of the baseline may be too long for it, and is marked in the first column."""


def paper_table(result: StudyResult, table: Table, names: Sequence[str] = ()) -> Table:
    """The columns of the table of results with these names, in this order; without names those of `_usual`.

    Raises: SpecError for a name that the table does not have.
    """
    known = [name for name, _ in groupby(column.name for column in table.columns)]
    names = known if [*names] == [ALL] else names or _usual(result, known)
    if unknown := [name for name in names if name not in known]:
        raise SpecError(f"columns must be of {', '.join(known)}, or {ALL} alone, got {', '.join(map(repr, unknown))}")
    columns = [column for name in dict.fromkeys(names) for column in table.columns if column.name == name]
    title = " ".join(
        [f"{table.title}.", *_caption(result, columns), *["Bold: best by validation."] * bool(table.strong)]
    )
    return replace(table, title=title, columns=_joined(table, columns), note="")


def _usual(result: StudyResult, known: Sequence[str]) -> list[str]:
    """A paper's five: parameters, or the seeds where some are missing, or do not learn, or all models are as large."""
    tests = [row.test for row in shown(result)]
    uniform = all(test.uniform for test in tests)
    seeds = ["seeds"] if uniform else ["seeds", "learn"]
    alike = uniform and len({test.n for test in tests}) == 1 and "parameters" in known
    differences = ["difference", "difference-interval", "p"] if "difference" in known else ["interval"]
    named = ["name", *(["parameters"] if alike else seeds), "score", *differences]
    return [name for name in named if name in known]


def _caption(result: StudyResult, columns: Sequence[Column]) -> list[str]:
    """What a reader must know about the numbers that are shown."""
    rows, names, found = shown(result), {column.name for column in columns}, []
    if "score" in names:
        low, high = min(row.test.n for row in rows), max(row.test.n for row in rows)
        count = plural(high, "seed") if low == high else f"{low} to {high} seeds"
        found += [f"Mean ± standard deviation over {count}."]
        found += [DIVERGED] if any(row.test.diverged for row in rows) else []
    if names & OURS:
        found += [f"Differences to the baseline are paired by seed{_test_words(result, names)}."]
        found += claimed_words(result) if names & TESTED else []
    if names & OURS and not all(row.test.uniform for row in rows):
        found += [
            "Where some seeds do not learn, means are those of all seeds, and differences those of seeds that learn."
        ]
    return found + star_words(result, columns)


def _test_words(result: StudyResult, names: set[str]) -> str:
    if not names & TESTED or not result.adjusted_over:
        return ""
    count = plural(result.adjusted_over, "difference")
    return f"; p and intervals are two-sided, adjusted for {count} (Holm), at the level {result.alpha:.3g}"


def _joined(table: Table, columns: Sequence[Column]) -> list[Column]:
    """Each column with those that stand under it in the table, in brackets."""
    stacks = {column.name: place for place, stack in enumerate(table.stacks) for column in stack}
    found: list[Column] = []
    last = ""
    for column in columns:
        if column.under and last and stacks[last] == stacks[column.name]:
            cells = [
                f"{cell} ({under})" if under else cell
                for cell, under in zip(found[-1].cells, column.cells, strict=True)
            ]
            found[-1] = replace(found[-1], head=f"{found[-1].head} ({_short(column)})", cells=cells)
        else:
            group = HEAD if column.name in DIFFERENCES else column.group
            words = column.words or column.name == "seeds"  # `4, 1 diverged`: may take two lines
            group = group if group != column.head else ""
            found.append(replace(column, head=_short(column), group=group, words=words))
        last = column.name
    return found


def _short(column: Column) -> str:
    """A head without the name of Holm's procedure, which stands in the caption."""
    return column.head.removesuffix(" (Holm)")
