"""The files of a home: the journal, the outcomes, the editions, and the history that they add up to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Check:
    """One thing that should agree among what was written about a study. `detail`: what was compared, or disagrees."""

    name: str
    ok: bool
    detail: str

    @classmethod
    def of(cls, name: str, looked: int, things: str, wrong: list[str]) -> Self:
        """Returns a check that is good if nothing is wrong; at most three wrong things are named."""
        few = "; ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")
        return cls(name, not wrong, few or f"{looked} {things}")


def plain_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text. Raises: ValueError for any other, and for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
