"""A number that a paper published, beside which a study shows its own."""

from __future__ import annotations

import math
import re

from pydantic import Field

from trainables.spec import Spec

LEAST, MOST = 0.005, 0.1
"""The ends of a margin that follows from a deviation. What differs by less is equal for every reader; what must lie
within more only says nothing."""


class Published(Spec):
    """A number of a paper, shown beside the test score of an arm (or of `best`).

    `same_data`: whether the paper's images are of the study's kind, so that both share an axis.
    `margin`: how near our mean must be to count as equal; if it is null, it follows from `spread` (`within`).
    """

    who: str
    value: float
    spread: float | None
    source: str
    same_data: bool = False
    margin: float | None = Field(default=None, gt=0, description="a positive margin, or null")

    @property
    def places(self) -> frozenset[str]:
        """Where in the paper it stands: `table 1`, or the words before the first comma where no table is named.

        Two numbers may be subtracted if they stand in one place, as those of two tables often had other trainings.
        """
        tables = re.findall(r"(?:[A-Z]\w+ )?table [A-Z]?\d+", self.source)
        paper = re.match(r"[^,]*\b(?:19|20)\d\d\b[^,]*(?=,)", self.source)
        tables = [f"{paper[0]}, {table}" for table in tables] if paper else tables
        return frozenset(tables or filter(None, self.source.partition(",")[0].split(" and ")))

    @property
    def within(self) -> float | None:
        """The margin that is judged; None if equality is not asked.

        For the paper's own images it is twice the deviation of a difference of two seeds, if ours spread as theirs do:
        2 * sqrt(2) * spread, at least `LEAST`. Beyond `MOST`, and without a spread, nothing is asked.
        """
        if self.margin is not None or not self.same_data or self.spread is None:
            return self.margin
        margin = max(LEAST, 2 * math.sqrt(2) * self.spread)
        return round(margin, 4) if margin <= MOST else None

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" +- {self.spread:g}"
        return f"{self.value:g}{spread}, {self.source}"
