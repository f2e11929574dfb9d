"""A paper's sentence as a check: a closed form, judged SUPPORTED, REFUTED or INCONCLUSIVE.

A claim names trials: an arm, or `best` for the confirmed best of a search. It is judged on the test set, over three
seeds or more, with images of the training's own side or of another one of `Recipe.test_sizes`. Budgets with a `gap`
and editions with own values judge nothing (`service/README.md` describes how claims are judged).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from search_spaces.words import quoted
from trainables.spec import Spec


class ClaimAtSize(Spec):
    """A field of every claim: the side of the test images. Units: pixels."""

    image_size: int | None = Field(
        default=None, gt=0, kw_only=True, description="one of test_sizes, or null for the training's own"
    )

    @property
    def where(self) -> str:
        """The side in words; nothing for the training's own."""
        return f" at {self.image_size} px" if self.image_size else ""


class AtLeast(ClaimAtSize):
    """The mean test score of `who` is at least `value`."""

    kind: Literal["at_least"] = Field(default="at_least", init=False)
    who: str
    value: float
    source: str = ""

    def __str__(self) -> str:
        return f"{quoted(self.who)} reaches at least {self.value:g}{self.where}"


class AtChance(ClaimAtSize):
    """The mean test score of `who` lies within `margin` of chance."""

    kind: Literal["at_chance"] = Field(default="at_chance", init=False)
    who: str
    margin: float = Field(default=0.03, gt=0, description="a positive margin")
    source: str = ""

    def __str__(self) -> str:
        return f"{quoted(self.who)} stays at chance, within {self.margin:g}{self.where}"


class Better(ClaimAtSize):
    """`who` scores higher than `than` by more than `margin`, paired by seed."""

    kind: Literal["better"] = Field(default="better", init=False)
    who: str
    than: str
    margin: float = Field(default=0.0, ge=0, description="a margin of 0 or more")
    source: str = ""

    def __str__(self) -> str:
        margin = f" by more than {self.margin:g}" if self.margin else ""
        return f"{quoted(self.who)} is better than {quoted(self.than)}{margin}{self.where}"


class Equivalent(ClaimAtSize):
    """`who` and `than` score alike, within `margin`, paired by seed."""

    kind: Literal["equivalent"] = Field(default="equivalent", init=False)
    who: str
    than: str
    margin: float = Field(gt=0, description="a positive margin")
    source: str = ""

    def __str__(self) -> str:
        return f"{quoted(self.who)} equals {quoted(self.than)} within {self.margin:g}{self.where}"


Claim = Annotated[AtLeast | AtChance | Better | Equivalent, Field(discriminator="kind")]
