"""The journal of a study: its ordered facts, one JSON line each, written by one driver at a time.

All decisions and measurements of a study are here, and what is to be done next follows from them. Facts that another
process or a later decision relies on are fsynced (`planned`, `stopped`, `failed`, `ended` and so on). A measurement is
only flushed, because its epoch can be trained again. A torn last line is dropped, and reported.
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
    """A journal that cannot be read."""


class UnfitError(JournalError):
    """A fact that is whole, but not one of this study: of an arm that the study has not, for example."""


class FormError(JournalError):
    """A journal of another form than this locus reads: of a newer or an older one."""


@dataclass(frozen=True)
class Place:
    """A place between two lines of a journal. `by`: the highest number of a driver before it.

    `opened`: the numbers of all drivers that have opened the journal before it. `left_out`: how many lines before it do
    not count.
    Units: `offset` in bytes.
    """

    offset: int = 0
    lines: int = 0
    by: int = 0
    opened: frozenset[int] = frozenset()
    left_out: int = 0


START = Place()


def read(path: Path) -> tuple[list[Fact], bool]:
    """Returns the facts of a journal, and whether a torn last line was dropped. Raises: JournalError as `read_on`."""
    facts, end = read_on(path)
    return facts, path.exists() and end.offset < path.stat().st_size


def read_on(path: Path, position: Place = START) -> tuple[list[Fact], Place]:
    """Returns the facts of a journal file from a place on, and the place of the next one. A torn last line waits.

    A line of a driver with a lower number than one before it is left out: that driver was suspended while it wrote, and
    another one has gone on without it.
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

    What follows the last line break is the torn rest of one line; if it has breaks of another kind (CR), the file
    was changed by something else, and all of it counts, for a torn rest is dropped.
    """
    end = content.rfind(b"\n") + 1
    return (content if b"\r" in content[end:] else content[:end]).splitlines(keepends=True)


def _next(line: bytes, path: Path, position: Place) -> tuple[Fact | None, Place]:
    """Returns the fact of the line at a place, None if it does not count, and the place after it."""
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
    """Returns the fact of the line of a number, the first one being 1. Raises: JournalError, FormError."""
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
    """Returns the error of a line that is no fact."""
    return JournalError(f"{path}, line {number}, is no fact: {line[:80]!r} {remedy(path.parent.name)}")


def remedy(id: str) -> str:
    """Returns what to do about a line that cannot be read."""
    return f"(locus verify {id} --repair cuts the journal there)"


PATIENCE_S = 0.5
"""How long a driver waits for the lock. `status` holds it for a moment, to check whether a driver does."""


class Journal:
    """The one writer of a journal file: `with Journal(path, lock) as journal: journal.write(fact)`.

    `facts`: those that the file held when it was opened. `session`: what says that this driver may write. `claims`: the
    digest of the claims that are asked.
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
        """Appends a fact with the time. It is on the disk before this returns, unless it measures or starts a run.

        Raises: TakenOverError if another driver has taken the study over; nothing is written then. Before a
        measurement nothing is looked at, as there may be thousands in a row: `look` first.
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
        try:
            self.look()
        except TakenOverError:
            return True
        return False


def cut(path: Path, lock: Path, add: Callable[[Fact], object] = lambda fact: None) -> tuple[int, list[Fact]] | None:
    """Cuts a journal at the first line that is no fact, and keeps the whole file beside, as `.damaged`.

    `add` is called with each fact, and raises JournalError for one that does not fit the study, which is cut as well.
    What the later lines told is lost but for the answers, which are files of their own. Returns the number of the line,
    and the facts of the later lines, those that can be read; None if all lines are facts.
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
    """Holds the lock of a study. Raises: HeldError, LocusError if its folder can only be read."""
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
