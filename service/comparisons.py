"""Studies set beside one another, two or those of a matrix, for Python, notebooks and the command."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.library import find_matrix
from service.analysis.comparison.comparison import Comparison
from service.analysis.comparison.definition import side
from service.analysis.comparison.matrix import FilledMatrix, fill
from service.analysis.comparison.versions import known_codes, versions
from service.analysis.study_result import StudyResult
from service.storage.home import Home
from trainables.recipe.code_digest import CodeDigests
from trainables.spec import LocusError

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class ComparedStudies(Comparison):
    """A comparison with its table and its page."""

    home: Home

    @property
    def headline(self) -> str:
        """In which trials the two differ significantly, in a sentence."""
        from service.reporting.compare_page import headline

        return headline(self)

    @property
    def notes(self) -> list[str]:
        """What the numbers mean, and what one side has alone."""
        from service.reporting.compare_page import note, only_words

        return list(filter(None, [*only_words(self), note(self)]))

    def table(self) -> DataFrame:
        """A row for each trial that both have: scores, the difference with its interval and p, how it was compared."""
        from service.analysis.tables import Table

        return Table.of(self.plain()["trials"], " ".join([self.headline, *self.notes]))

    def report(self) -> Path:
        """Writes the page beside the report of A, and returns its path."""
        from service.reporting.compare_page import write

        return write(self.home, self)

    def __repr__(self) -> str:
        notes = "\n".join(f"  note: {warning}" for warning in self.warnings)
        return f"A: {self.a.label}\nB: {self.b.label}\n{self.headline}\n{notes}".rstrip()

    def _repr_html_(self) -> str:
        heads = f"<p>A: <b>{html.escape(self.a.label)}</b><br>B: <b>{html.escape(self.b.label)}</b></p>"
        notes = "".join(f"<li>{html.escape(warning)}</li>" for warning in self.warnings)
        rows = self.table().to_html(index=False) if self.matches else ""
        return f"{heads}<p>{html.escape(self.headline)}</p><ul>{notes}</ul>{rows}"


def compare(home: Home, ids: list[str], code: tuple[str, str] | None, *, adopt: bool) -> ComparedStudies:
    """The comparison of two ids, or of two code versions of one.

    Raises: LocusError if it is not clear what is to be compared.
    """
    codes = CodeDigests()
    results = [StudyResult.open(home, id, adopt=adopt, codes=codes) for id in dict.fromkeys(ids)]
    if code is not None:
        if len(ids) > 1:
            raise LocusError(f"compare must be given one study beside --code, got {' and '.join(ids)}")
        if code[0] == code[1]:
            raise LocusError(f"--code must be two versions, got {code[0]} twice")
        one, other = versions(results[0], code)
        return ComparedStudies(one, other, home)
    if len(results) == 1:
        raise LocusError(
            f"compare must be given two studies, or one with --code X Y, got {ids[0]} alone; "
            f"codes of its answers: {known_codes(results[0])}"
        )
    return ComparedStudies(side(results[0]), side(results[1]), home)


@dataclass(frozen=True, repr=False)
class MatrixWithPage(FilledMatrix):
    """A filled matrix with its table and its page."""

    home: Home

    def table(self) -> DataFrame:
        """A row for each property, a column for each encoding: what the paper printed, and what was found."""
        import pandas as pd

        columns = {
            encoding: [f"paper: {row[place].published}; {'; '.join(row[place].found)}" for row in self.cells]
            for place, encoding in enumerate(self.matrix.encodings)
        }
        return pd.DataFrame(columns, index=[row[0].row for row in self.cells])

    def report(self) -> Path:
        """Writes the page, and returns its path."""
        from service.reporting.compare_page import write_matrix

        return write_matrix(self.home, self)

    def __repr__(self) -> str:
        lines = [f"{cell.row}, {cell.encoding}: paper {cell.published}; {'; '.join(cell.found)}" for row in self.cells
                 for cell in row]  # fmt: skip
        return "\n".join([self.id, *lines, self.headline, *self.commands])

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.headline)}</p>{self.table().to_html()}"


def fill_matrix(home: Home, name: str, budget: str, *, adopt: bool) -> MatrixWithPage:
    """The matrix of a name at a budget. Raises: SpecError for an unknown name, or a budget that a study lacks."""
    found = fill(home, find_matrix(name), budget, adopt=adopt)
    return MatrixWithPage(**vars(found), home=home)
