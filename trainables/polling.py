"""Waits for what another process or machine does and nobody reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def poll(question: Callable[[], T], every_s: float, at_most_s: float = float("inf")) -> T:
    """Asks again and again until the answer is true, or the time is up; returns the last answer. Units: seconds."""
    until = time.monotonic() + at_most_s
    while not (answer := question()) and time.monotonic() < until:
        time.sleep(every_s)
    return answer
