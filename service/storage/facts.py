"""What a journal tells: its facts, of which each says when it was written, and by which driver.

A journal may come from a stranger, in a copied home, an archive or a storage. Its keys and codes become names of files
and folders, and its counts become loops. So each of them has a form and a bound, and a line beyond these is no fact. A
checksum ends each line, so that one byte that changes in it is seen.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter

from search_spaces.roles import MOST_SEEDS, MOST_TRIALS, Role
from trainables.spec import Spec

FORM = 5
"""The form of the journals that this code writes and reads. A new kind of fact or a changed one makes a new form."""
KEY = "[0-9a-f]{16}"
RunKey = Annotated[str, Field(pattern=f"^{KEY}$", description="16 hex digits")]
"""The key of a run, as `Run.key` gives it."""
Code = Annotated[str, Field(pattern="^[0-9a-f]{12}$", description="12 hex digits")]
"""The digest of the code that trains a run."""
Count = Annotated[int, Field(ge=0, le=1_000_000, description="a number from 0 to 1,000,000")]
"""An epoch, a place in a list, an attempt."""


class Stamped(Spec):
    """What the journal adds to each fact. `by`: the number of the driver's session. Units: seconds since 1970."""

    time: float = Field(default=0.0, ge=0, le=1e11, kw_only=True)
    by: int = Field(default=0, ge=0, lt=2**53, kw_only=True)

    def bare(self) -> Self:
        """Returns the fact without its time and its driver: two that are equal tell the same."""
        return self.model_copy(update={"time": 0.0, "by": 0})


class Opened(Stamped):
    """A driver has opened the journal, and writes from here on; every session begins with this fact.

    `form`: the form of the journal. `version`: that of locus. `claims`: the digest of the study's claims at that
    time, so that a page can say whether they were written before the runs.
    """

    fact: Literal["opened"] = Field(default="opened", init=False)
    host: str
    pid: int
    version: str
    form: int = FORM
    claims: str = Field(default="", max_length=16)


class Planned(Stamped):
    """A trial was added. `tunes`: the arm that a point may tune."""

    fact: Literal["planned"] = Field(default="planned", init=False)
    role: Role
    number: Count
    name: str
    values: dict[str, Any]
    """The point or arm; of a parent, the `key` of its first run."""
    tunes: str = ""


class Started(Stamped):
    """A run was assigned to a worker."""

    fact: Literal["started"] = Field(default="started", init=False)
    run: RunKey
    code: Code
    attempt: Count
    seed: Count
    label: str
    placement: dict[str, Any] = Field(default_factory=dict)


class Measured(Stamped):
    """The numbers of an epoch. The first fact of an epoch counts; a resumed run reports some epochs again."""

    fact: Literal["measured"] = Field(default="measured", init=False)
    run: RunKey
    code: Code
    epoch: Count
    values: dict[str, float]


class StoppedAt(Stamped):
    """The study stopped a run at a rung; at epoch 0, it left the run out, because its point was out of the race."""

    fact: Literal["stopped"] = Field(default="stopped", init=False)
    run: RunKey
    code: Code
    epoch: Count
    cutoff: float


class FailedWith(Stamped):
    """A run failed for a reason that is not its recipe's.

    `counts` is false for a lost node, which spends no attempt; `final` is true where a second attempt cannot help.
    """

    fact: Literal["failed"] = Field(default="failed", init=False)
    run: RunKey
    code: Code
    reason: str
    counts: bool = True
    final: bool = False


class Ended(Stamped):
    """A run has its answer: trained here, or found among the outcomes (`reused`)."""

    fact: Literal["ended"] = Field(default="ended", init=False)
    run: RunKey
    code: Code
    outcome: Literal["completed", "diverged"]
    epoch: Count
    reused: bool = False


class Counts(Stamped):
    """How many trials and seeds are asked for, from here on.

    `looks`: how many times verdicts could be seen before a repair cut the journal here; 0 if it did not.
    """

    fact: Literal["counts"] = Field(default="counts", init=False)
    seeds: int = Field(ge=1, le=MOST_SEEDS)
    trials: int | None = Field(default=None, ge=1, le=MOST_TRIALS)
    looks: int = Field(default=0, ge=0)


class Confirms(Stamped):
    """The trials chosen for the confirmation, best first. `rivals`: those of the random points."""

    fact: Literal["confirms"] = Field(default="confirms", init=False)
    numbers: tuple[Count, ...] = Field(strict=False)
    rivals: tuple[Count, ...] = Field(default=(), strict=False)


class Exhausted(Stamped):
    """The space has no further point. `rival`: the search of random points, which may find fewer."""

    fact: Literal["exhausted"] = Field(default="exhausted", init=False)
    trials: Count
    rival: bool = False


class Tuned(Stamped):
    """The tuning of an arm has ended, and the arm's values are fixed: those of the trial of this number.

    None: every trial diverged, and the arm keeps the values that the study gives it.
    """

    fact: Literal["tuned"] = Field(default="tuned", init=False)
    arm: str
    number: Count | None


class ArmCost(Spec):
    """What an arm takes in each of its turns. Units: seconds an image, of training and of prediction."""

    train_s: tuple[float, ...] = Field(strict=False)
    predict_s: tuple[float, ...] = Field(strict=False)


class Costed(Stamped):
    """What arms cost, measured side by side: a turn of an arm is beside the same turn of the others.

    `load`: of the machine before, over the last minute; `cores`: that it has.
    """

    fact: Literal["costed"] = Field(default="costed", init=False)
    arms: dict[str, ArmCost]
    load: float
    cores: Count

    @property
    def busy(self) -> str:
        """How busy the machine was, in words; nothing if half of its cores were free."""
        return f" (a load of {self.load:.1f} on {self.cores} cores)" if self.load > self.cores / 2 else ""


Fact = Annotated[
    Opened | Planned | Started | Measured | StoppedAt | FailedWith | Ended | Counts | Confirms | Exhausted | Tuned |
    Costed,
    Field(discriminator="fact"),
]  # fmt: skip
FACT: TypeAdapter[Fact] = TypeAdapter(Fact)
"""Reads a fact from the JSON of a line."""
SUM = re.compile(rb'(.*),"sum":"([0-9a-f]{8})"\}\s*', re.DOTALL)
"""How a line ends: with the CRC-32 of the bytes before, in hex digits."""


def line_of(plain: Mapping[str, Any]) -> bytes:
    """Returns the line of a fact's plain values."""
    content = json.dumps(plain, separators=(",", ":")).encode().removesuffix(b"}")
    return b'%s,"sum":"%08x"}\n' % (content, zlib.crc32(content))


def content_of(line: bytes) -> bytes | None:
    """Returns the JSON of a line without its checksum; None without one. Raises: ValueError for a wrong checksum."""
    match = SUM.fullmatch(line)
    if match is None:
        return None
    if zlib.crc32(match[1]) != int(match[2], 16):
        raise ValueError("the line differs from its checksum")
    return match[1] + b"}"
