"""A list that a person reads: an entry a line."""

from __future__ import annotations

import html
from typing import TypeVar

T = TypeVar("T")


class Lines(list[T]):
    """A list that prints, and stands in a notebook, with the text of each entry on a line of its own."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "none"

    def _repr_html_(self) -> str:
        return "none" if not self else f"<ul>{''.join(f'<li>{html.escape(str(entry))}</li>' for entry in self)}</ul>"
