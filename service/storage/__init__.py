"""Reads and writes the files of a home: journals, answers of runs and definitions of studies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Check:
    """One comparison of a study's files. `detail` says what was compared or, where `ok` is false, what disagrees."""

    name: str
    ok: bool
    detail: str

    @classmethod
    def of(cls, name: str, looked: int, things: str, wrong: list[str]) -> Self:
        """Returns the check of `looked` things, which is `ok` if `wrong` is empty and else names three wrong things."""
        few = "; ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")
        return cls(name, not wrong, few or f"{looked} {things}")


def plain_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text. Raises: ValueError for a text that is no JSON, or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
