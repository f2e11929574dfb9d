"""What a table of a report is: rows of text under a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of text under a head. `words`: columns that hold words, all others hold numbers; `strong`: rows to mark."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: frozenset[int] = frozenset({0})
    strong: frozenset[int] = frozenset()
    note: str = ""
    wide: bool = False
    """Whether it may leave the text's column."""
    folded: str = ""
    """Where the table is long: the line that unfolds it."""
