"""Waits for something that another thread or process does."""

import time
from collections.abc import Callable

LIMIT_S = 60.0
"""Far more than any busy machine needs: only what never comes ends by it."""


def until(holds: Callable[[], object]) -> None:
    """Looks again and again until something holds."""
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)
