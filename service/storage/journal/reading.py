"""Reads a journal: its facts in order, without those that a driver wrote after another one had taken the study over."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from service.storage.journal.facts import FACT, FORM, Fact, Opened
from trainables.spec import LocusError


class JournalError(LocusError):
    """A journal that cannot be read."""


class FormError(JournalError):
    """A journal of another form than this locus reads: of a newer or an older one."""


@dataclass(frozen=True)
class Place:
    """A place between two lines of a journal. `by`: the highest number of a driver before it.

    Units: `offset` in bytes.
    """

    offset: int = 0
    lines: int = 0
    by: int = 0


START = Place()


def read(path: Path) -> tuple[list[Fact], bool]:
    """The facts of a journal file, and whether a torn last line was dropped. No file: no facts.

    Raises: JournalError as `read_on`.
    """
    facts, end = read_on(path)
    return facts, path.exists() and end.offset < path.stat().st_size


def read_on(path: Path, place: Place = START) -> tuple[list[Fact], Place]:
    """The facts of a journal file from a place on, and the place of the next one. A torn last line waits.

    A line of a driver with a lower number than one before it is dropped: that driver was suspended while it wrote, and
    another one has gone on without it.
    Raises: JournalError for a line that is no fact, FormError for a journal of a newer or an older locus.
    """
    if not path.exists():
        return [], place
    with path.open("rb") as file:
        file.seek(place.offset)
        whole = file.read()
    whole = whole[: whole.rfind(b"\n") + 1]
    lines, by = whole.splitlines(keepends=True), place.by
    facts: list[Fact] = []
    for number, line in enumerate(lines, start=place.lines + 1):
        fact = fact_of(line, path, number)
        if fact.by >= by:
            facts.append(fact)
            by = fact.by
    return facts, Place(place.offset + len(whole), place.lines + len(lines), by)


def fact_of(line: bytes, path: Path, number: int) -> Fact:
    """The fact of the line of a number, the first one being 1. Raises: JournalError, FormError."""
    try:
        fact = FACT.validate_json(line)
    except ValueError as error:
        _check_form(_plain(line), path)
        how = f"(locus verify {path.parent.name} --repair cuts the journal there)"
        raise JournalError(f"{path}, line {number}, is no fact: {line[:80]!r} {how}") from error
    if isinstance(fact, Opened):
        _check_form(vars(fact) | {"fact": fact.fact}, path)
    elif number == 1:
        raise _other_form(path, "none", "an older locus")
    return fact


def _plain(line: bytes) -> dict[str, Any]:
    """The values of a line; none where it is no JSON object."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _check_form(said: dict[str, Any], path: Path) -> None:
    """Refuses the first fact of a session whose form is another one. Raises: FormError."""
    form = said.get("form", FORM)
    if said.get("fact") == "opened" and form != FORM:
        raise _other_form(path, str(form), f"locus {said.get('version', '?')}")


def _other_form(path: Path, form: str, writer: str) -> FormError:
    return FormError(
        f"{path} must be of form {FORM} to be read by locus {version('locus')}, got form {form} of {writer}: use that "
        f"locus, or locus run {path.parent.name} --fresh, which starts the study again; answers of today's code are "
        "used again"
    )
