"""What a worker is given: one run, where it writes, and how it is laid out. Plain values, for they cross processes."""

from __future__ import annotations

from trainables.recipe import Run
from trainables.spec import Spec


class Task(Spec):
    """One attempt at one run."""

    run: Run
    code: str
    label: str
    attempt: int
    folder: str
    """The only folder the worker writes; it may hold an earlier attempt's checkpoint."""
    parent: str | None = None
    """The file of the parent's weights."""
    device: str = "cpu"
    threads: int = 1
    workers: int = 0
