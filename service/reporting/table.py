"""What a table of a report is: columns of text, some of them under a common head."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Column:
    """One column. `group`: the head that it shares with its neighbors; `words`: it holds words, not numbers.

    `under`: a page shows it as a second line of the column before it, and so needs less width.
    """

    head: str
    cells: Sequence[str]
    group: str = ""
    words: bool = False
    under: bool = False

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
        writer.writerow([column.full_head for column in self.columns])
        writer.writerows(self.rows)
        return text.getvalue()


def _spans(groups: list[str]) -> Iterator[tuple[str, int]]:
    for group, same in groupby(groups):
        yield group, len(list(same))
