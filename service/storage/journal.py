"""The journal of a study: its ordered facts, one JSON line each, written by one driver under a lock.

All decisions and measurements of a study are here, and what is to be done next follows from them. Facts that another
process or a later decision relies on are fsynced (`planned`, `stopped`, `failed`, `ended` and so on). A measurement is
only flushed, because its epoch can be trained again. A torn last line is dropped, and reported.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from filelock import FileLock, Timeout
from pydantic import Field, TypeAdapter

from search_spaces.roles import Role
from service.storage.whole_files import put_aside, write_whole
from trainables.spec import LocusError, Spec


class Planned(Spec):
    """A trial was added: a point that was proposed, an arm, a confirmation, a random rival, a parent.

    `tunes`: the arm that a point may tune.
    """

    fact: Literal["planned"] = Field(default="planned", init=False)
    role: Role
    number: int
    name: str
    values: dict[str, Any]
    """The point or arm; of a parent, the `key` of its first run."""
    tunes: str = ""
    time: float = 0.0


class Started(Spec):
    """A run was assigned to a worker."""

    fact: Literal["started"] = Field(default="started", init=False)
    run: str
    code: str
    attempt: int
    seed: int
    label: str
    placement: dict[str, Any] = Field(default_factory=dict)
    time: float = 0.0


class Measured(Spec):
    """The numbers of an epoch. The first fact of an epoch counts; a resumed run reports some epochs again."""

    fact: Literal["measured"] = Field(default="measured", init=False)
    run: str
    code: str
    epoch: int
    values: dict[str, float]
    time: float = 0.0


class StoppedAt(Spec):
    """The study stopped a run at a rung."""

    fact: Literal["stopped"] = Field(default="stopped", init=False)
    run: str
    code: str
    epoch: int
    cutoff: float
    time: float = 0.0


class FailedWith(Spec):
    """A run failed for a reason that is not its recipe's.

    `counts` is false for a lost node, which spends no attempt; `final` is true where a second attempt cannot help.
    """

    fact: Literal["failed"] = Field(default="failed", init=False)
    run: str
    code: str
    reason: str
    counts: bool = True
    final: bool = False
    time: float = 0.0


class Ended(Spec):
    """A run has its answer: trained here, or found among the outcomes (`reused`)."""

    fact: Literal["ended"] = Field(default="ended", init=False)
    run: str
    code: str
    outcome: Literal["completed", "diverged"]
    epoch: int
    reused: bool = False
    time: float = 0.0


class Counts(Spec):
    """How many trials and seeds are asked for, from here on."""

    fact: Literal["counts"] = Field(default="counts", init=False)
    seeds: int
    trials: int | None = None
    time: float = 0.0


class Confirms(Spec):
    """The trials chosen for the confirmation, best first. `rivals`: those of the random points."""

    fact: Literal["confirms"] = Field(default="confirms", init=False)
    numbers: tuple[int, ...] = Field(strict=False)
    rivals: tuple[int, ...] = Field(default=(), strict=False)
    time: float = 0.0


class Exhausted(Spec):
    """The space has no further point: these are all the trials that the search will ever have.

    `rival`: the search of random points, which may find fewer.
    """

    fact: Literal["exhausted"] = Field(default="exhausted", init=False)
    trials: int
    rival: bool = False
    time: float = 0.0


class Tuned(Spec):
    """The tuning of an arm has ended, and the arm's values are fixed: those of the trial of this number.

    None: every trial diverged, and the arm keeps the values that the study gives it.
    """

    fact: Literal["tuned"] = Field(default="tuned", init=False)
    arm: str
    number: int | None
    time: float = 0.0


class Adopted(Spec):
    """For this run another answer counts than the first one of today's code.

    `code` is the answer's name: of older code, which the user adopted; or, with `again`, a later answer of the same
    code, which gave other numbers and counts as long as the code is the same. None: the adopted answer is gone, and
    today's code counts.
    """

    fact: Literal["adopted"] = Field(default="adopted", init=False)
    run: str
    code: str | None
    again: bool = False
    time: float = 0.0


Fact = Annotated[
    Planned | Started | Measured | StoppedAt | FailedWith | Ended | Counts | Confirms | Exhausted | Tuned | Adopted,
    Field(discriminator="fact"),
]
_FACT: TypeAdapter[Fact] = TypeAdapter(Fact)


PATIENCE_S = 0.5
"""How long a driver waits for the lock. `status` holds it for a moment, to check whether a driver does."""


class JournalError(LocusError):
    """A journal that cannot be read, or that another driver holds."""


def read(path: Path) -> tuple[list[Fact], bool]:
    """The facts of a journal file, and whether a torn last line was dropped. No file: no facts."""
    facts, end = read_on(path, 0)
    return facts, path.exists() and end < path.stat().st_size


def read_on(path: Path, offset: int) -> tuple[list[Fact], int]:
    """The facts of a journal file from an offset on, and where the next one will begin. A torn last line waits.

    Raises: JournalError for a line that is no fact.
    """
    if not path.exists():
        return [], offset
    with path.open("rb") as file:
        file.seek(offset)
        whole = file.read()
    whole = whole[: whole.rfind(b"\n") + 1]
    facts: list[Fact] = []
    for number, line in enumerate(whole.splitlines(keepends=True), start=1):
        try:
            facts.append(_FACT.validate_json(line))
        except ValueError as error:
            where = f"{path}, line {number}" if offset == 0 else str(path)
            how = f"(locus verify {path.parent.name} --repair cuts the journal there)"
            raise JournalError(f"{where}, is no fact: {line[:80]!r} {how}") from error
    return facts, offset + len(whole)


def cut(path: Path, lock: Path) -> int | None:
    """Cuts a journal at the first line that is no fact, and keeps the whole file beside, as `.damaged`.

    What the later lines told is lost but for the answers, which are files of their own. Returns the number of the line;
    None where all lines are facts. Raises: JournalError where a driver holds the lock.
    """
    held = FileLock(lock)
    _acquire(held, path)
    try:
        content = path.read_bytes()
        lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)  # as `read` takes them
        bad = next((number for number, line in enumerate(lines) if not _is_fact(line)), None)
        if bad is None:
            return None
        put_aside(path)
        write_whole(path, b"".join(lines[:bad]))
        return bad + 1
    finally:
        held.release()


def _is_fact(line: bytes) -> bool:
    try:
        _FACT.validate_json(line)
    except ValueError:
        return False
    return True


def _acquire(lock: FileLock, path: Path) -> None:
    try:
        lock.acquire(timeout=PATIENCE_S)
    except Timeout:
        raise JournalError(f"{path.parent.name} is being run by another driver; see locus status") from None


class Journal:
    """The one writer of a journal file: `with Journal(path, lock) as journal: journal.write(fact)`.

    `facts`: those that the file held when it was opened.
    Raises: JournalError where another driver holds the lock.
    """

    def __init__(self, path: Path, lock: Path) -> None:
        self.path = path
        self._lock = FileLock(lock)
        self.facts: list[Fact] = []
        self.torn = False

    def __enter__(self) -> Journal:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _acquire(self._lock, self.path)
        try:
            self.facts, self.torn = read(self.path)
        except JournalError:
            self._lock.release()
            raise
        self._file = self.path.open("ab")
        if self.torn:
            self._file.truncate(self.path.read_bytes().rfind(b"\n") + 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._lock.release()

    def write(self, fact: Fact) -> Fact:
        """Appends a fact with the time. It is on the disk before this returns, unless it measures or starts a run.

        Cost: 1-2 ms.
        """
        stamped = fact.model_copy(update={"time": time.time()})
        self._file.write(json.dumps(stamped.model_dump(mode="json"), separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        if not isinstance(fact, Measured | Started):
            os.fsync(self._file.fileno())
        return stamped
