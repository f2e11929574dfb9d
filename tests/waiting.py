"""Waits for something that another thread or process does."""

import time
from collections.abc import Callable

LIMIT_S = 120.0
"""Far more than any busy machine needs: only what never comes ends by it."""
LONG_S = 900.0
"""The same for what trains a study, or waits for one."""


def until(holds: Callable[[], object], told: Callable[[], object] = lambda: "", limit_s: float = LIMIT_S) -> None:
    """Looks again and again until something holds. `told`: what is shown if it never does.

    A look that takes long is followed by a pause as long, so that it leaves the machine to what is awaited.
    """
    end = time.monotonic() + limit_s
    while True:
        begun = time.monotonic()
        if holds():
            return
        assert begun < end, f"it never came to that: {told()}"
        time.sleep(max(0.01, time.monotonic() - begun))
