"""Reads a journal: its facts in order, without those that a driver wrote after another one had taken the study over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from service.storage.journal.facts import FACT, FORM, Fact, Opened, content_of
from service.storage.plain_json import plain_json
from trainables.spec import LocusError


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
    """The facts of a journal file, and whether a torn last line was dropped. No file: no facts.

    Raises: JournalError as `read_on`.
    """
    facts, end = read_on(path)
    return facts, path.exists() and end.offset < path.stat().st_size


def read_on(path: Path, place: Place = START) -> tuple[list[Fact], Place]:
    """The facts of a journal file from a place on, and the place of the next one. A torn last line waits.

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
    """The facts of a journal file, each with the number of its line. Raises: JournalError as `read_on`."""
    return list(Lines(path).facts(path.read_bytes())) if path.exists() else []


def whole_lines(content: bytes) -> list[bytes]:
    """The lines of a journal that were written to their end.

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
        """The numbers and facts of the lines that count. Raises: JournalError, FormError."""
        for line in whole_lines(content):
            fact = self.next(line)
            if fact is not None:
                yield self._number, fact

    def next(self, line: bytes) -> Fact | None:
        """The fact of the next line; None if it does not count. Raises: JournalError, FormError."""
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
    """The fact of the line of a number, the first one being 1. Raises: JournalError, FormError."""
    try:
        content = content_of(line)
    except ValueError as error:
        raise no_fact(line, path, number) from error
    try:
        fact = FACT.validate_json(content or b"")
    except ValueError as error:
        said = _plain(content or line)
        if content is None and number == 1 and said.get("fact") == "counts":  # which once came first
            raise _other_form(path, "none", "an older locus") from None
        _check_form(said, path)
        raise no_fact(line, path, number) from error
    _check_form(vars(fact) | {"fact": fact.fact}, path)
    return fact


def no_fact(line: bytes, path: Path, number: int) -> JournalError:
    """The error of a line that is no fact."""
    return JournalError(f"{path}, line {number}, is no fact: {line[:80]!r} {remedy(path.parent.name)}")


def remedy(id: str) -> str:
    """What to do about a line that cannot be read."""
    return f"(locus verify {id} --repair cuts the journal there)"


def _plain(line: bytes) -> dict[str, Any]:
    """The values of a line; none if it is no JSON object."""
    try:
        found = plain_json(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _check_form(said: dict[str, Any], path: Path) -> None:
    """Refuses the first fact of a session whose form is another one. Raises: FormError."""
    if said.get("fact") == "opened" and said.get("form", FORM) != FORM:
        raise _other_form(path, str(said["form"]), f"locus {said.get('version', '?')}")


def _other_form(path: Path, form: str, writer: str) -> FormError:
    return FormError(
        f"{path} must be of form {FORM} to be read by locus {version('locus')}, got form {form} of {writer}: use that "
        f"locus, or locus run {path.parent.name} --fresh, which starts the study again; answers of today's code are "
        "used again"
    )
