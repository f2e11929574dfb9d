"""A number that a paper published, beside which a study shows its own."""

from __future__ import annotations

from pydantic import Field

from trainables.spec import Spec


class Published(Spec):
    """A number of a paper, shown beside the test score of an arm (or of `best`).

    `same_data`: whether the paper's images are of the study's kind, so that both share an axis.
    `margin`: how near our mean must be to count as equal; without one that is not judged.
    """

    who: str
    value: float
    spread: float | None
    source: str
    same_data: bool = False
    margin: float | None = Field(default=None, gt=0, description="a positive margin, or null")

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" +- {self.spread:g}"
        return f"{self.value:g}{spread}, {self.source}"
