"""An arm of several encodings."""

from typing import Any


def both(*parts: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of an arm with several encodings."""
    return {"encoding": {"kind": "composed", "parts": [*parts]}}
