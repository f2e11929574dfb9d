"""Ctrl-C: the first one asks a study to stop, the second interrupts it; the report is written in both cases.

SIGTERM and SIGHUP (a container, Slurm or a closed terminal ends) ask as the first Ctrl-C does, however often they come.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

STOPPING = "stopping after this epoch, press again to stop now"
ENDING = "{} received: stopping after this epoch"
ENDS = (signal.SIGTERM, signal.SIGHUP)
INSIST_S = 1.0
"""How often an interrupt is sent again, because some calls ignore one."""


@dataclass
class Stop:
    """One flag for Ctrl-C, `stop` and `--hours`: no run is started, each run ends at its next report."""

    deadline: float | None = None
    asked: bool = False

    def __bool__(self) -> bool:
        return self.asked or (self.deadline is not None and time.time() >= self.deadline)


class StopSignals:
    """What SIGINT, SIGTERM and SIGHUP do while a study runs. `note` prints a line; it is called from another thread.

    Presses are counted where the operating system delivers them (a wakeup pipe), because Python sees two presses as one
    while it waits in a long call, such as the start of Ray. KeyboardInterrupt is raised only within `interruptible`.
    """

    def __init__(self, stop: Stop, note: Callable[[str], None]) -> None:
        self._stop = stop
        self._note = note
        self._open = False
        self._now = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handles the signals within the block. In another thread than the main one nothing is handled.

        Raises: KeyboardInterrupt for a Ctrl-C that came before and was lost (`service.__main__.Presses`).
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        if getattr(signal.getsignal(signal.SIGINT), "came", False):
            raise KeyboardInterrupt
        end, start = os.pipe()
        os.set_blocking(start, False)
        wakeup = signal.set_wakeup_fd(start, warn_on_full_buffer=False)
        known = {one: signal.getsignal(one) for one in (signal.SIGINT, *ENDS)}
        for one, before in known.items():
            if one not in ENDS or before != signal.SIG_IGN:  # `nohup` ignores SIGHUP
                signal.signal(one, self._caught)
        threading.Thread(target=self._count, args=(end,), name="signals", daemon=True).start()
        try:
            yield
        finally:
            for one, before in known.items():
                signal.signal(one, before)
            signal.set_wakeup_fd(wakeup)
            os.close(start)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """A second Ctrl-C interrupts this block."""
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def _caught(self, *_: object) -> None:
        if self._now and self._open:
            raise KeyboardInterrupt

    def _count(self, end: int) -> None:
        """The thread: reads one byte for each signal, until the other end is closed."""
        while byte := os.read(end, 1):
            if byte[0] == signal.SIGINT:
                self._press()
            elif byte[0] in ENDS:
                self._end(signal.Signals(byte[0]))
        os.close(end)

    def _end(self, received: signal.Signals) -> None:
        if not self._stop.asked:
            self._ask(ENDING.format(received.name))

    def _ask(self, line: str) -> None:
        self._stop.asked = True
        with suppress(OSError):  # the terminal may be gone
            self._note(line)

    def _press(self) -> None:
        if not self._stop.asked:
            self._ask(STOPPING)
            return
        self._now = True
        while self._open:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(INSIST_S)


def hear_again() -> None:
    """Puts Python's handlers back where other code of this process took the signals that end a study, as Ray does.

    Ray's own handler of SIGTERM ends the process three seconds later. Call it in the main thread; elsewhere it does
    nothing.
    """
    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGINT, *ENDS):
            if (known := signal.getsignal(one)) is not None:
                signal.signal(one, known)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Delays the signals that end a study until the end of the block, and undoes what other code does to them.

    `StopSignals` still counts them. In another thread than the main one, which no signal disturbs, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    known = {one: signal.signal(one, lambda number, _: came.append(number)) for one in (signal.SIGINT, *ENDS)}
    try:
        yield
    finally:
        for one, before in known.items():
            signal.signal(one, before)
        for number in came:
            if callable(before := known[signal.Signals(number)]):
                before(number, None)
