"""A table of a paper that several studies fill: a row a property, a column an encoding.

Nothing is trained for it. A cell sets what the paper printed beside the verdicts of the studies' own claims.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from search_spaces.claim import Claim, ClaimOfOne, ProbeBetween
from search_spaces.study import Study
from trainables.spec import Spec, require

Mark = Literal["yes", "no", "partly"]


class Cell(Spec):
    """What the paper printed of an encoding, and the arms of the row's study that have it. No arms: not tested."""

    published: Mark
    arms: tuple[str, ...] = Field(default=(), strict=False, description="a list of names of arms")


class Property(Spec):
    """A row. `shown_by`: claims on test scores, claims on probes before training, or a count of parameters."""

    name: str
    study: str
    cells: dict[str, Cell]
    shown_by: Literal["scores", "probes", "parameters"] = "scores"

    def claims(self, encoding: str, study: Study) -> list[Claim]:
        """Returns the claims of the row's study that decide a cell; none if parameters are counted."""
        return [claim for claim in study.claims if self._decides(claim, self.cells[encoding].arms)]

    def _decides(self, claim: Claim, arms: tuple[str, ...]) -> bool:
        if not isinstance(claim, ClaimOfOne) or claim.who not in arms:
            return False
        if isinstance(claim, ProbeBetween):
            return self.shown_by == "probes" and claim.when == "before"
        return self.shown_by == "scores"


class Matrix(Spec):
    """A named table of properties, with the paper that printed it."""

    name: str
    question: str
    paper: str
    rows: tuple[Property, ...] = Field(strict=False, min_length=1, description="a list of rows")
    gaps: tuple[str, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _even(self) -> Matrix:
        for row in self.rows:
            require([*row.cells] == self.encodings, "rows", "of the same encodings in the same order", [*row.cells])
        return self

    @property
    def encodings(self) -> list[str]:
        """The columns."""
        return [*self.rows[0].cells]

    @property
    def studies(self) -> list[str]:
        """The studies that fill it, each once."""
        return list(dict.fromkeys(row.study for row in self.rows))
