"""What a table of a report is: columns of text, some of them under a common head."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Column:
    """One column. `group`: the head that it shares with its neighbors; `words`: it holds words, not numbers.

    `under`: a page shows it as a second line of the column before it, and so needs less width. `name`: by which a user
    chooses it.
    """

    head: str
    cells: Sequence[str]
    group: str = ""
    words: bool = False
    under: bool = False
    name: str = ""

    @property
    def full_head(self) -> str:
        """The head where there is one line for it: `test accuracy, 95 % interval`."""
        return ", ".join(filter(None, (self.group, self.head)))


@dataclass(frozen=True)
class Table:
    """Columns of text under a title. `name`: of its files and its anchor; `strong`: the rows to mark.

    `folded`: a page shows the table only on demand, because it is long.
    """

    name: str
    title: str
    columns: Sequence[Column]
    strong: frozenset[int] = frozenset()
    note: str = ""
    folded: bool = False

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells, row by row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    @property
    def stacks(self) -> list[list[Column]]:
        """The columns as a page shows them: each with those that stand under it."""
        found: list[list[Column]] = []
        for column in self.columns:
            if column.under and found:
                found[-1].append(column)
            else:
                found.append([column])
        return found

    @property
    def stacked_groups(self) -> list[tuple[str, int]]:
        """The heads over the stacks, each with the number of stacks that it spans; no group is an empty head."""
        return list(_spans([stack[0].group for stack in self.stacks]))

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The heads over the columns, each with the number of columns that it spans."""
        return list(_spans([column.group for column in self.columns]))

    @property
    def grouped(self) -> bool:
        """Whether any column has a head over it."""
        return any(column.group for column in self.columns)

    def csv(self) -> str:
        """The table as shown, with one line of heads."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([as_text(column.full_head) for column in self.columns])
        writer.writerows(map(as_text, row) for row in self.rows)
        return text.getvalue()


NUMBERS = re.compile(r"[-+][-+\d.,%e±()\[\] ]*")
"""A signed number, with what our tables write beside it."""


def as_text(cell: str) -> str:
    """A cell of a CSV file that no spreadsheet takes for a formula: a name may begin with one of = + - @."""
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") and not NUMBERS.fullmatch(cell) else cell


def frame_csv(frame: DataFrame) -> str:
    """A frame as CSV; its words are `as_text`."""
    found: str = frame.map(lambda cell: as_text(cell) if isinstance(cell, str) else cell).to_csv(index=False)
    return found


def _spans(groups: list[str]) -> Iterator[tuple[str, int]]:
    for group, same in groupby(groups):
        yield group, len(list(same))
