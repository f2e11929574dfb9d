"""What a job tells the client that watches it: a line of JSON with a fixed beginning, among the lines for people.

Ray takes no metadata after a job was sent, and these facts are known later: the study's id there, the address of its
MLflow run, how it ended. A refusal and the answer to a question travel in the same way.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

MARK = "locus-fact "
"""How the line of a fact begins."""


def tell(**facts: Any) -> None:
    """Prints facts. It writes once, so that the line of another thread does not come between."""
    sys.stdout.write(f"{MARK}{json.dumps(facts)}\n")
    sys.stdout.flush()


def told(lines: Iterable[str]) -> dict[str, Any]:
    """The facts among a job's lines; a later one replaces an earlier one of its name. A line that was cut is none."""
    found: dict[str, Any] = {}
    for line in filter(is_fact, lines):
        try:
            found |= json.loads(line.removeprefix(MARK))
        except ValueError:
            continue
    return found


def is_fact(line: str) -> bool:
    """Whether a line is for the client, and not for a person."""
    return line.startswith(MARK)
