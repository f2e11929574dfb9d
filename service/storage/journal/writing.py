"""Writes a journal: one driver at a time, which holds the study's lock and has the newest session."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock, Timeout

from service.storage.driver_lease import DRIVERS, Session, TakenOverError, held, newest
from service.storage.journal.facts import Fact, Measured, Opened, Started, line_of
from service.storage.journal.reading import FormError, JournalError, Lines, Place, fact_of, read_on, whole_lines
from trainables.whole_files import put_aside, require_writable, write_whole

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
            facts, place = read_on(self.path)
            self.session.begin(above=place.by)
            stack.callback(self.session.end)
            self._file = stack.enter_context(self.path.open("ab", buffering=0))
            self._open(facts, place)
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _open(self, facts: list[Fact], place: Place) -> None:
        """Writes the first fact of this session. What the driver before wrote up to here counts, and nothing later."""
        more, place = read_on(self.path, place)
        self.torn = self.path.stat().st_size > place.offset
        if self.torn:
            self._file.truncate(place.offset)
        self.write(Opened(host=self.session.host.name, pid=os.getpid(), version=version("locus"), claims=self.claims))
        late, _ = read_on(self.path, place)
        self.facts = [*facts, *more, *(fact for fact in late if fact.by < self.session.number)]

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
        self._append(line_of(stamped.model_dump(mode="json")))
        if not isinstance(fact, Measured | Started):
            os.fsync(self._file.fileno())
        return stamped

    def _append(self, line: bytes) -> None:
        """Writes a line by one call, so that a driver which was suspended never adds the rest of a line later."""
        written = self._file.write(line)
        if written != len(line):
            raise OSError(errno.ENOSPC, f"{self.path} must take {len(line)} bytes, got place for {written}")

    def look(self) -> None:
        """Looks whether this driver may still write. Raises: TakenOverError if another one has taken over."""
        self.session.look()

    @property
    def lost(self) -> bool:
        """Whether another driver has taken the study over."""
        try:
            self.look()
        except TakenOverError:
            return True
        return False


def cut(path: Path, lock: Path, add: Callable[[Fact], object] = lambda fact: None) -> int | None:
    """Cuts a journal at the first line that is no fact, and keeps the whole file beside, as `.damaged`.

    `add` is called with each fact, and raises JournalError for one that does not fit the study, which is cut as well.
    What the later lines told is lost but for the answers, which are files of their own. Returns the number of the line;
    None if all lines are facts.
    Raises: HeldError if a driver runs the study, FormError for a journal of another form, which is not cut.
    """
    session = Session(path.parent / DRIVERS)
    with _locked(lock, session.folder):
        lines = whole_lines(path.read_bytes())
        bad = _first_bad(path, lines, add)
        if bad is None:
            return None
        session.begin()
        try:
            put_aside(path)
            write_whole(path, b"".join(lines[: bad - 1]))
        finally:
            session.end()
        return bad


def _first_bad(path: Path, lines: list[bytes], add: Callable[[Fact], object]) -> int | None:
    """The number of the first line that is no fact, or does not fit. Raises: FormError for a line of another form."""
    for number, line in enumerate(lines, start=1):
        try:
            fact_of(line, path, number)
        except FormError:
            raise
        except JournalError:
            continue
    reader = Lines(path)
    for number, line in enumerate(lines, start=1):
        try:
            if (fact := reader.next(line)) is not None:
                add(fact)
        except JournalError:
            return number
    return None


@contextmanager
def _locked(lock: Path, drivers: Path) -> Iterator[None]:
    """Holds the lock of a study.

    Raises: HeldError if another driver of this machine holds it, LocusError if its folder can only be read.
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
