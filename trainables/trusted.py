"""Which code in other people's files runs here: that which this person has run before, and no other.

A study with a class of the user's own carries the text of its file, and to read the study runs it. Whoever names a file
knows it; what is read from a home may come from anybody, so that a command runs its code only if it is known. The
digests of known files lie in `known-code`, in the folder `locus` of $XDG_STATE_HOME (else ~/.local/state).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from trainables.errors import LocusError

_named: ContextVar[bool] = ContextVar("named", default=False)
_guarded = False


class UntrustedError(LocusError):
    """A file whose code nobody here has run yet."""


@contextmanager
def guarded() -> Iterator[None]:
    """A command runs no code meanwhile that nobody named. (A worker, or a script, runs what it gets.)"""
    global _guarded  # of all threads: the live screen reads recipes in one of its own
    before, _guarded = _guarded, True
    try:
        yield
    finally:
        _guarded = before


@contextmanager
def named() -> Iterator[None]:
    """What is read meanwhile was named by the person: its code may run, and is known from then on."""
    token = _named.set(True)
    try:
        yield
    finally:
        _named.reset(token)


def check(file: str, sha256: str) -> None:
    """Notes code that a person runs. Raises: UntrustedError for other code, where nobody here has run it."""
    if not _guarded or _named.get():
        trust(sha256)
    elif sha256 not in known():
        raise UntrustedError(
            f"{file}, which comes with the study, must be code that you have run before, as reading the study runs it: "
            "locus trust NAME shows it and asks"
        )


def known() -> set[str]:
    """Returns the SHA-256 of the known files."""
    try:
        return {*_list().read_text(encoding="utf-8").split()}
    except OSError:
        return set()


def trust(sha256: str) -> None:
    """Adds a file to the known ones, where the list can be written."""
    if sha256 in known():
        return
    with suppress(OSError):
        _list().parent.mkdir(parents=True, exist_ok=True)
        with _list().open("a", encoding="utf-8") as file:
            file.write(f"{sha256}\n")  # a line in one call, so that two processes never mix theirs


def _list() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "locus" / "known-code"
