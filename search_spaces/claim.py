"""A paper's sentence as a check: a closed form, judged SUPPORTED, REFUTED or INCONCLUSIVE.

A claim names trials: an arm, or `best` for the confirmed best of a search. It is judged over three seeds or more: on
the test set, with images of the training's own side or of another one of `Recipe.test_sizes`, or on the value of a
probe. Budgets with a `gap` and editions with own values judge nothing (`service/README.md` describes how claims are
judged).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from search_spaces.words import listed, quoted
from trainables.spec import Spec, require


class ClaimOfOne(Spec):
    """A field of the claims about one trial."""

    who: str

    @property
    def names(self) -> tuple[str, ...]:
        """The trials that the claim speaks of."""
        return (self.who,)


class ClaimOfTwo(Spec):
    """Fields of the claims about two trials, which are paired by seed."""

    who: str
    than: str

    @property
    def names(self) -> tuple[str, ...]:
        """The trials that the claim speaks of."""
        return (self.who, self.than)


class ClaimOfSeveral(Spec):
    """Fields of the claims about trials in an order. The trials are paired by seed."""

    who: tuple[str, ...] = Field(strict=False, min_length=2, description="a list of two names or more")

    @model_validator(mode="after")
    def _each_once(self) -> ClaimOfSeveral:
        require(len(set(self.who)) == len(self.who), "who", "without doubles", list(self.who))
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The trials that the claim speaks of."""
        return self.who

    @property
    def listed(self) -> str:
        """The names in a sentence, in their order."""
        return listed([quoted(name) for name in self.who])


class ClaimAtSize(Spec):
    """A field of every claim on test scores: the side of the test images. Units: pixels."""

    image_size: int | None = Field(
        default=None, gt=0, kw_only=True, description="one of test_sizes, or null for the training's own"
    )

    @property
    def where(self) -> str:
        """The side in words; nothing for the training's own."""
        return f" at {self.image_size} px" if self.image_size else ""


class ClaimOfSeeds(ClaimAtSize):
    """Fields of the claims that may be about how well a trial scores, and not about how often it trains.

    `of`: all seeds; or, where a paper leaves out runs that failed, those that train.
    """

    of: Literal["all seeds", "seeds that train"] = Field(
        default="all seeds", kw_only=True, description="'all seeds', or 'seeds that train' (those that did not fail)"
    )

    @property
    def seed(self) -> str:
        """The seed that the claim speaks of, in words."""
        return "the typical seed" if self.of == "all seeds" else "the typical seed that trains"


class ClaimOfProbe(Spec):
    """Fields of the claims about a number that a probe finds, and not about test scores.

    `probe`, `value`: names, such as `direction` and `left`; `when`: before or after training.
    """

    probe: str
    value: str
    when: Literal["before", "after"] = Field(
        default="before", kw_only=True, description="'before' or 'after' (training)"
    )

    @property
    def measure(self) -> str:
        """What is measured, in words."""
        return f"{self.probe} probe ({self.value}) {self.when} training"


class AtLeast(ClaimOfOne, ClaimOfSeeds):
    """The typical seed of `who` has a test score of at least `value`.

    Of few seeds that are skewed, as near a perfect score, a test holds for the typical seed and not for the mean.
    """

    kind: Literal["at_least"] = Field(default="at_least", init=False)
    value: float
    source: str = ""

    def __str__(self) -> str:
        return f"{self.seed} of {quoted(self.who)} reaches at least {self.value:g}{self.where}"


class AtChance(ClaimOfOne, ClaimAtSize):
    """The mean test score of `who` lies within `margin` of chance."""

    kind: Literal["at_chance"] = Field(default="at_chance", init=False)
    margin: float = Field(default=0.03, gt=0, description="a positive margin")
    source: str = ""

    def __str__(self) -> str:
        return f"{quoted(self.who)} stays at chance, within {self.margin:g}{self.where}"


class Better(ClaimOfTwo, ClaimOfSeeds):
    """The typical seed of `who` scores higher than that of `than` by more than `margin`, paired by seed."""

    kind: Literal["better"] = Field(default="better", init=False)
    margin: float = Field(default=0.0, ge=0, description="a margin of 0 or more")
    source: str = ""

    def __str__(self) -> str:
        margin = f" by more than {self.margin:g}" if self.margin else ""
        return f"{self.seed} of {quoted(self.who)} is better than that of {quoted(self.than)}{margin}{self.where}"


class NoWorse(ClaimOfTwo, ClaimOfSeeds):
    """The typical seed of `who` scores higher than that of `than`, or lower by less than `margin` (non-inferiority)."""

    kind: Literal["no_worse"] = Field(default="no_worse", init=False)
    margin: float = Field(gt=0, description="a positive margin")
    source: str = ""

    def __str__(self) -> str:
        who, than = f"{self.seed} of {quoted(self.who)}", f"that of {quoted(self.than)}"
        return f"{who} is no worse than {than}, within {self.margin:g}{self.where}"


class Equivalent(ClaimOfTwo, ClaimOfSeeds):
    """`who` and `than` score alike, within `margin`, paired by seed."""

    kind: Literal["equivalent"] = Field(default="equivalent", init=False)
    margin: float = Field(gt=0, description="a positive margin")
    source: str = ""

    def __str__(self) -> str:
        who, than = f"{self.seed} of {quoted(self.who)}", f"that of {quoted(self.than)}"
        return f"{who} equals {than} within {self.margin:g}{self.where}"


class KeepsMore(ClaimOfTwo):
    """`who` keeps more of its score than `than` on test images of another side, paired by seed.

    What is compared is the share that each keeps of what it scores above chance at the training's own side, by more
    than `margin`. A seed at chance has nothing to keep, so it decides nothing. Units: pixels.
    """

    kind: Literal["keeps_more"] = Field(default="keeps_more", init=False)
    image_size: int = Field(gt=0, description="one of test_sizes")
    margin: float = Field(default=0.0, ge=0, description="a margin of 0 or more")
    source: str = ""

    @property
    def where(self) -> str:
        """The side in words."""
        return f" at {self.image_size} px"

    def __str__(self) -> str:
        margin = f" by more than {self.margin:g}" if self.margin else ""
        return f"{quoted(self.who)} keeps more of its score than {quoted(self.than)}{margin}{self.where}"


class Rising(ClaimOfSeveral, ClaimOfSeeds):
    """The score rises along the trials of `who`, by more than `margin` from one to the next, paired by seed.

    What rises is the least-squares line of each seed over 0, 1, 2 and so on, so single steps may fall.
    Of three trials the middle one does not change the slope.
    """

    kind: Literal["rising"] = Field(default="rising", init=False)
    margin: float = Field(default=0.0, ge=0, description="a margin of 0 or more")
    source: str = ""

    def __str__(self) -> str:
        margin = f" by more than {self.margin:g} a step" if self.margin else ""
        return f"the score rises along {self.listed}{margin}{self.where}"


def _check_ends(low: float | None, high: float | None) -> None:
    ends = [end for end in (low, high) if end is not None]
    require(len(ends) > 0, "low", "a number where high is none", None)
    require(len(ends) < 2 or ends[0] < ends[1], "low", f"less than high ({high})", low)


def _ends(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"from {low:g} to {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}"


class ProbeBetween(ClaimOfProbe, ClaimOfOne):
    """The mean of a probe's value over the seeds of `who` lies from `low` to `high`, one of which may be left open."""

    kind: Literal["probe_between"] = Field(default="probe_between", init=False)
    low: float | None
    high: float | None
    source: str = ""

    @model_validator(mode="after")
    def _an_interval(self) -> ProbeBetween:
        _check_ends(self.low, self.high)
        return self

    def __str__(self) -> str:
        return f"{quoted(self.who)}: {self.measure} is {_ends(self.low, self.high)}"


class ClaimOfMaps(ClaimOfProbe, ClaimOfTwo):
    """Fields of the claims about how alike the maps are that a probe finds in `who` and in `than`.

    `value` names the maps: an array of the probe with a picture of the grid for each position (and block). What is
    judged lies from `low` to `high`, one of which may be left open.
    """

    low: float | None
    high: float | None

    @model_validator(mode="after")
    def _an_interval(self) -> ClaimOfMaps:
        _check_ends(self.low, self.high)
        require(self.who != self.than, "than", "another trial than who", self.than)
        return self


class ProbeAlike(ClaimOfMaps):
    """The maps of `who` and `than` correlate by so much.

    Pearson's correlation, over all pairs of two different positions, of the model of a seed of `who` and that of the
    next seed of `than`, because models of one seed share initial weights; the mean over seeds is judged. Tables drawn
    at random have about 0.
    """

    kind: Literal["probe_alike"] = Field(default="probe_alike", init=False)
    source: str = ""

    def __str__(self) -> str:
        both = f"{quoted(self.who)} and {quoted(self.than)}"
        return f"{both}: the correlation of their {self.measure} is {_ends(self.low, self.high)}"


class ProbeAsAlike(ClaimOfMaps):
    """The maps of `who` and `than` are as alike as those of two seeds of `than`, or less so.

    What is judged is the correlation of `ProbeAlike`, less that of the same seed and the next one of `than`. No bound
    on the correlation itself says what is alike, as two trainings of one model differ, too. If the maps of two seeds
    correlate by no more than the claim's end (its size), the claim stays undecided: all maps are as alike as those.
    """

    kind: Literal["probe_as_alike"] = Field(default="probe_as_alike", init=False)
    source: str = ""

    def __str__(self) -> str:
        both = f"{quoted(self.who)} and {quoted(self.than)}"
        seeds = f"less that of two seeds of {quoted(self.than)}"
        return f"{both}: the correlation of their {self.measure}, {seeds}, is {_ends(self.low, self.high)}"


class ProbeRising(ClaimOfProbe, ClaimOfSeveral):
    """A probe's value rises along the trials of `who`, by more than `margin` from one to the next, as `Rising` does."""

    kind: Literal["probe_rising"] = Field(default="probe_rising", init=False)
    margin: float = Field(default=0.0, ge=0, description="a margin of 0 or more")
    source: str = ""

    def __str__(self) -> str:
        margin = f" by more than {self.margin:g} a step" if self.margin else ""
        return f"the {self.measure} rises along {self.listed}{margin}"


Claim = Annotated[
    AtLeast
    | AtChance
    | Better
    | NoWorse
    | Equivalent
    | KeepsMore
    | Rising
    | ProbeBetween
    | ProbeAlike
    | ProbeAsAlike
    | ProbeRising,
    Field(discriminator="kind"),
]
