"""Ctrl-C: once asks a study to stop, twice interrupts it, and nothing disturbs its closing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.driver import Stop

STOPPING = "stopping after this epoch, press again to stop now"


class CtrlC:
    """What SIGINT does while a study runs. `say` is heard once, from a thread of its own.

    The handler may run in the middle of a print of the same thread, so it only sets flags. It raises KeyboardInterrupt
    at most once, and only within `open`: whoever tidies up outside is left in peace.
    """

    def __init__(self, stop: Stop, say: Callable[[str], None]) -> None:
        self._stop = stop
        self._say = say
        self._open = False
        self._pressed = threading.Event()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Takes SIGINT over. Off the main thread nothing is caught."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        threading.Thread(target=self._tell, name="ctrl-c", daemon=True).start()
        before = signal.signal(signal.SIGINT, self._caught)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            self._pressed.set()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Where a second Ctrl-C may interrupt."""
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def _caught(self, *_: object) -> None:
        if not self._stop.asked:
            self._stop.asked = True
            self._pressed.set()
        elif self._open:
            self._open = False
            raise KeyboardInterrupt

    def _tell(self) -> None:
        self._pressed.wait()
        if self._stop.asked:
            self._say(STOPPING)
