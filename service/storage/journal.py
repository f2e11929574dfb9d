"""Reads and writes the journal of a study: its ordered facts, one JSON line each, written by one driver at a time.

All decisions and measurements of a study are here, and its next step follows from them. Facts that another process or a
later decision relies on are fsynced (`planned`, `stopped`, `failed`, `ended` and so on). A measurement is only flushed,
because its epoch can be trained again. A last line that a crash cut is dropped, and reported.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from service.storage import plain_json
from service.storage.facts import FACT, FORM, Fact, Measured, Opened, Started, content_of, line_of
from service.storage.leases import DRIVERS, Session, TakenOverError, held, newest
from trainables.spec import LocusError
from trainables.whole_files import put_aside, require_writable, write_whole


class JournalError(LocusError):
    """The error for a journal that cannot be read."""


class UnfitError(JournalError):
    """The error for a whole fact that does not fit its study, for example one about an unknown arm."""


class FormError(JournalError):
    """The error for a journal whose form is that of a newer or an older version of locus."""


@dataclass(frozen=True)
class Place:
    """A place between two lines of a journal: after `lines` lines, which take `offset` bytes.

    `by` is the highest number of a driver before this place, `opened` the numbers of all drivers that opened the
    journal before it. `left_out` is the number of lines before it that do not count.
    """

    offset: int = 0
    lines: int = 0
    by: int = 0
    opened: frozenset[int] = frozenset()
    left_out: int = 0


START = Place()


def read(path: Path) -> tuple[list[Fact], bool]:
    """Returns the facts of a journal, and whether a cut last line was dropped. Raises: JournalError as `read_on`."""
    facts, end = read_on(path)
    return facts, path.exists() and end.offset < path.stat().st_size


def read_on(path: Path, position: Place = START) -> tuple[list[Fact], Place]:
    """Returns the facts of a journal file after a place, and the place after them. A cut last line is not read.

    A line is left out if a driver with a higher number has written before it: the line's driver was suspended while it
    wrote, and the other driver has taken the study over.
    Raises: JournalError for a line that is no fact, FormError for a journal of a newer or an older locus.
    """
    facts: list[Fact] = []
    if path.exists():
        with path.open("rb") as file:
            file.seek(position.offset)
            content = file.read()
        for line in whole_lines(content):
            fact, position = _next(line, path, position)
            if fact is not None:
                facts.append(fact)
    return facts, position


def read_lines(path: Path) -> list[tuple[int, Fact]]:
    """Returns the facts of a journal file, each with the number of its line. Raises: JournalError as `read_on`."""
    facts, position = list[tuple[int, Fact]](), START
    for line in whole_lines(path.read_bytes()) if path.exists() else []:
        fact, position = _next(line, path, position)
        if fact is not None:
            facts.append((position.lines, fact))
    return facts


def whole_lines(content: bytes) -> list[bytes]:
    """Returns the lines of a journal that were written to their end.

    The bytes after the last line break are the beginning of a line, and are dropped. If they have breaks of another
    kind (CR), something else than locus changed the file, and they are returned, too.
    """
    end = content.rfind(b"\n") + 1
    return (content if b"\r" in content[end:] else content[:end]).splitlines(keepends=True)


def _next(line: bytes, path: Path, position: Place) -> tuple[Fact | None, Place]:
    """Returns the fact of the line at a place (None if the line does not count), and the place after the line."""
    number, opened = position.lines + 1, position.opened
    fact = fact_of(line, path, number)
    if isinstance(fact, Opened):
        opened |= {fact.by}
    elif fact.by not in opened:  # each driver opens the journal first, so this number is damaged
        raise no_fact(line, path, number)
    is_late = fact.by < position.by
    after = Place(position.offset + len(line), number, max(position.by, fact.by), opened, position.left_out + is_late)
    return None if is_late else fact, after


def fact_of(line: bytes, path: Path, number: int) -> Fact:
    """Returns the fact of a line. `path` and `number` (1 for the first line) are for the error.

    Raises: JournalError, FormError.
    """
    try:
        content = content_of(line)
    except ValueError as error:
        raise no_fact(line, path, number) from error
    fact: Fact | None = None
    cause: ValueError | None = None
    values: Any = {}
    try:
        fact = FACT.validate_json(content or b"")
    except ValueError as error:
        cause = error
        with suppress(ValueError):
            values = plain_json(content or line)
    if isinstance(fact, Opened):
        values = vars(fact)
    values = values if isinstance(values, dict) else {}

    form: int | str = FORM
    writer = ""
    if content is None and number == 1 and values.get("fact") == "counts":  # which once came first
        form, writer = "none", "an older locus"
    elif values.get("fact") == "opened":
        form, writer = values.get("form", FORM), f"locus {values.get('version', '?')}"
    if form != FORM:
        raise FormError(
            f"{path} must be of form {FORM} to be read by locus {version('locus')}, got form {form} of {writer}: use "
            f"that locus, or locus run {path.parent.name} --as WORD, which starts the study again; answers of today's "
            "code are used again"
        )
    if fact is None:
        raise no_fact(line, path, number) from cause
    return fact


def no_fact(line: bytes, path: Path, number: int) -> JournalError:
    """Returns the error that says that a line is no fact."""
    return JournalError(f"{path}, line {number}, is no fact: {line[:80]!r} {remedy(path.parent.name)}")


def remedy(id: str) -> str:
    """Returns the advice for a line that cannot be read, in words."""
    return f"(locus verify {id} --repair cuts the journal there)"


PATIENCE_S = 0.5
"""The seconds that a driver waits for the lock, which `status` holds for a moment to learn whether a driver has it."""


class Journal:
    """The one writer of a journal file: `with Journal(path, lock) as journal: journal.write(fact)`.

    `facts` are the facts that the file held when it was opened; `torn` is true if its last line was cut, and dropped.
    `session` tells whether this driver may still write. `claims` is the digest of the study's claims.
    Raises: HeldError if another driver runs the study, JournalError if the file cannot be read.
    """

    def __init__(self, path: Path, lock: Path, session: Session | None = None, *, claims: str = "") -> None:
        self.path, self.claims = path, claims
        self.session = session or Session(path.parent / DRIVERS)
        self._lock = lock
        self.facts: list[Fact] = []
        self.torn = False

    def __enter__(self) -> Journal:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(_locked(self._lock, self.session.folder))
            facts, position = read_on(self.path)
            self.session.begin(above=position.by)
            stack.callback(self.session.end)
            self._file = stack.enter_context(self.path.open("ab", buffering=0))

            # what the driver before has written up to the first fact of this session counts, and nothing later
            more, position = read_on(self.path, position)
            self.torn = self.path.stat().st_size > position.offset
            if self.torn:
                self._file.truncate(position.offset)
            host = self.session.host.name
            self.write(Opened(host=host, pid=os.getpid(), version=version("locus"), claims=self.claims))
            late, _ = read_on(self.path, position)
            self.facts = [*facts, *more, *(fact for fact in late if fact.by < self.session.number)]
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def write(self, fact: Fact) -> Fact:
        """Appends a fact, and returns it with the time and the driver's number.

        It is on the disk before this returns, unless it is a `Measured` or `Started`. Before a `Measured`, of which
        there may be thousands in a row, the driver's file is not checked: call `look` first.
        Raises: TakenOverError if another driver has taken the study over; nothing is written then.
        Cost: 1-2 ms.
        """
        if isinstance(fact, Measured):
            self.session.recall()
        else:
            self.session.look()
        stamped = fact.model_copy(update={"time": time.time(), "by": self.session.number})
        line = line_of(stamped.model_dump(mode="json"))
        written = self._file.write(line)  # by one call, so that a driver which was suspended never adds a rest later
        if written != len(line):
            raise OSError(errno.ENOSPC, f"{self.path} must take {len(line)} bytes, got place for {written}")
        if not isinstance(fact, Measured | Started):
            os.fsync(self._file.fileno())
        return stamped

    def look(self) -> None:
        self.session.look()

    @property
    def lost(self) -> bool:
        """True if another driver has taken the study over."""
        try:
            self.look()
        except TakenOverError:
            return True
        return False


def cut(path: Path, lock: Path, add: Callable[[Fact], object] = lambda fact: None) -> tuple[int, list[Fact]] | None:
    """Cuts a journal at the first line that is no fact, and keeps a copy of the whole file, named `.damaged`.

    `add` is called with each fact; if it raises JournalError because a fact does not fit the study, the journal is cut
    there, too. The later facts are lost, but not the answers, which have files of their own. Returns the number of the
    first line that was cut, and the readable facts of the lines after it; None if all lines are facts.
    Raises: HeldError if a driver runs the study, FormError for a journal of another form, which is not cut.
    """
    session = Session(path.parent / DRIVERS)
    with _locked(lock, session.folder):
        lines = whole_lines(path.read_bytes())
        for number, line in enumerate(lines, start=1):
            try:
                fact_of(line, path, number)
            except FormError:  # wherever it is, the journal is another locus's
                raise
            except JournalError:
                continue

        position = START
        for line in lines:
            try:
                fact, after = _next(line, path, position)
                if fact is not None:
                    add(fact)
            except JournalError:
                break
            position = after
        else:
            return None

        session.begin()
        try:
            put_aside(path)
            write_whole(path, b"".join(lines[: position.lines]))
        finally:
            session.end()
        later: list[Fact] = []
        for line in lines[position.lines + 1 :]:
            with suppress(ValueError):
                later.append(FACT.validate_json(content_of(line) or b""))
        return position.lines + 1, later


@contextmanager
def _locked(lock: Path, drivers: Path) -> Iterator[None]:
    """Holds the lock of a study while the block lasts.

    Raises: HeldError if another driver holds it, LocusError if its folder can only be read.
    """
    require_writable(lock.parent)
    file = FileLock(lock)
    try:
        file.acquire(timeout=PATIENCE_S)
    except Timeout:
        raise held(drivers, newest(drivers)) from None
    try:
        yield
    finally:
        file.release()
