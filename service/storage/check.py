"""One check of whether the things that were written about a study agree."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing that should agree. `detail` names what was compared, or what disagrees."""

    name: str
    ok: bool
    detail: str
