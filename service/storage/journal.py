"""The journal of a study: its ordered facts, one JSON line each, written by one driver at a time.

All decisions and measurements of a study are here, and what is to be done next follows from them. Facts that another
process or a later decision relies on are fsynced (`planned`, `stopped`, `failed`, `ended` and so on). A measurement is
only flushed, because its epoch can be trained again. A torn last line is dropped, and reported.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
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
    """Returns the facts of a journal file, and whether a torn last line was dropped. No file: no facts.

    Raises: JournalError as `read_on`.
    """
    facts, end = read_on(path)
    return facts, path.exists() and end.offset < path.stat().st_size


def read_on(path: Path, place: Place = START) -> tuple[list[Fact], Place]:
    """Returns the facts of a journal file from a place on, and the place of the next one. A torn last line waits.

    A line of a driver with a lower number than one before it is left out: that driver was suspended while it wrote, and
    another one has gone on without it.
    Raises: JournalError for a line that is no fact, FormError for a journal of a newer or an older locus.
    """
    if not path.exists():
        return [], place
    with path.open("rb") as file:
        file.seek(place.offset)
        content = file.read()
    lines = Lines(path, place)
    facts = [fact for _, fact in lines.facts(content)]
    return facts, lines.place


def read_lines(path: Path) -> list[tuple[int, Fact]]:
    """Returns the facts of a journal file, each with the number of its line. Raises: JournalError as `read_on`."""
    return list(Lines(path).facts(path.read_bytes())) if path.exists() else []


def whole_lines(content: bytes) -> list[bytes]:
    """Returns the lines of a journal that were written to their end.

    What follows the last line break is the torn rest of one line; if it has breaks of another kind (CR), the file
    was changed by something else, and all of it counts, for a torn rest is dropped.
    """
    end = content.rfind(b"\n") + 1
    return (content if b"\r" in content[end:] else content[:end]).splitlines(keepends=True)


class Lines:
    """Reads the lines of a journal from a place on, one after another. `place`: the place of the next one."""

    def __init__(self, path: Path, place: Place = START) -> None:
        self._path = path
        self._offset, self._number, self._by = place.offset, place.lines, place.by
        self._opened, self._left_out = {*place.opened}, place.left_out

    @property
    def place(self) -> Place:
        """The place of the next line."""
        return Place(self._offset, self._number, self._by, frozenset(self._opened), self._left_out)

    def facts(self, content: bytes) -> Iterator[tuple[int, Fact]]:
        """Yields the numbers and facts of the lines that count. Raises: JournalError, FormError."""
        for line in whole_lines(content):
            fact = self.next(line)
            if fact is not None:
                yield self._number, fact

    def next(self, line: bytes) -> Fact | None:
        """Returns the fact of the next line; None if it does not count. Raises: JournalError, FormError."""
        number = self._number + 1
        fact = fact_of(line, self._path, number)
        if isinstance(fact, Opened):
            self._opened.add(fact.by)
        elif fact.by not in self._opened:  # each driver opens the journal first, so this number is damaged
            raise no_fact(line, self._path, number)
        self._offset, self._number = self._offset + len(line), number
        if fact.by < self._by:
            self._left_out += 1
            return None
        self._by = fact.by
        return fact


def fact_of(line: bytes, path: Path, number: int) -> Fact:
    """Returns the fact of the line of a number, the first one being 1. Raises: JournalError, FormError."""
    try:
        content = content_of(line)
    except ValueError as error:
        raise no_fact(line, path, number) from error
    try:
        fact = FACT.validate_json(content or b"")
    except ValueError as error:
        values = _plain(content or line)
        if content is None and number == 1 and values.get("fact") == "counts":  # which once came first
            raise _other_form(path, "none", "an older locus") from None
        _check_form(values, path)
        raise no_fact(line, path, number) from error
    _check_form(vars(fact) | {"fact": fact.fact}, path)
    return fact


def no_fact(line: bytes, path: Path, number: int) -> JournalError:
    """Returns the error of a line that is no fact."""
    return JournalError(f"{path}, line {number}, is no fact: {line[:80]!r} {remedy(path.parent.name)}")


def remedy(id: str) -> str:
    """Returns what to do about a line that cannot be read."""
    return f"(locus verify {id} --repair cuts the journal there)"


def _plain(line: bytes) -> dict[str, Any]:
    """Returns the values of a line; none if it is no JSON object."""
    try:
        values = plain_json(line)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _check_form(values: dict[str, Any], path: Path) -> None:
    """Refuses the first fact of a session whose form is another one. Raises: FormError."""
    if values.get("fact") == "opened" and values.get("form", FORM) != FORM:
        raise _other_form(path, str(values["form"]), f"locus {values.get('version', '?')}")


def _other_form(path: Path, form: str, writer: str) -> FormError:
    return FormError(
        f"{path} must be of form {FORM} to be read by locus {version('locus')}, got form {form} of {writer}: use that "
        f"locus, or locus run {path.parent.name} --as WORD, which starts the study again; answers of today's code are "
        "used again"
    )


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
        bad = _first_bad(path, lines, add)
        if bad is None:
            return None
        session.begin()
        try:
            put_aside(path)
            write_whole(path, b"".join(lines[: bad - 1]))
        finally:
            session.end()
        return bad, [*_readable(lines[bad:])]


def _readable(lines: Iterable[bytes]) -> Iterator[Fact]:
    for line in lines:
        with suppress(ValueError):
            yield FACT.validate_json(content_of(line) or b"")


def _first_bad(path: Path, lines: list[bytes], add: Callable[[Fact], object]) -> int | None:
    """Returns the number of the first line that is no fact, or does not fit.

    Raises: FormError for a line of another form.
    """
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
