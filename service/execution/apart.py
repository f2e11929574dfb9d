"""Work in a thread of its own: whoever waits for it hears signals, whatever the work does, and can leave it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from service.execution.signals import hear_again, undisturbed

LOOK_S = 0.1
"""How often the thread that waits looks around."""
ENDS_S = 30.0
"""How long work may take to end once it is left. What stands still even then ends with the process."""


class Apart:
    """Work that is done once, in a thread. `leaving`: that it must end, because nobody waits for it any more."""

    def __init__(self) -> None:
        self.leaving = threading.Event()
        self._ended = threading.Event()
        self._shares = False
        self._error: BaseException | None = None

    def do(self, work: Callable[[], None], watch: Callable[[], None]) -> None:
        """Does the work, and calls `watch` meanwhile. Where that raises, and at Ctrl-C, the work is left.

        Raises: what the work or `watch` raises; KeyboardInterrupt.
        """
        threading.Thread(target=self._do, args=(work,), name="apart", daemon=True).start()
        try:
            while not self._ended.wait(LOOK_S):
                hear_again()
                watch()
        finally:
            with undisturbed():
                self.leaving.set()
                if self._shares:
                    self._ended.wait(ENDS_S)
        if self._error is not None:
            raise self._error

    def share(self) -> None:
        """Called by the work before it uses what belongs to whoever waits: from here on its end is waited for.

        Raises: KeyboardInterrupt where it was left before.
        """
        self._shares = True
        self.check()

    def check(self) -> None:
        """Called by the work now and then. Raises: KeyboardInterrupt where it was left."""
        if self.leaving.is_set():
            raise KeyboardInterrupt

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # `do` raises it in the other thread
            self._error = error
        finally:
            self._ended.set()
