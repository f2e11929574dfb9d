"""Tells who waits how far a slow step is: a command shows a bar then, a worker or a script shows nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Look = Callable[[int, int], None]
"""What is called with how many are done, and of how many."""


_look: ContextVar[Look] = ContextVar("look", default=lambda done, total: None)


@contextmanager
def watched(look: Look) -> Iterator[None]:
    """`look` is called meanwhile by each step that counts what it reads."""
    token = _look.set(look)
    try:
        yield
    finally:
        _look.reset(token)


def looking() -> Look:
    """Returns what a step calls each time that one more is done."""
    return _look.get()
