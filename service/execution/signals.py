"""Ctrl-C: the first one asks a study to stop, the second interrupts it; the report is written in both cases.

SIGTERM and SIGHUP (a container, Slurm or a closed terminal ends) ask as the first Ctrl-C does, however often they come.
The main thread must hear them meanwhile, so calls that may stand still, such as those of Ray, are made in a thread.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

STOPPING = "stopping after this epoch, press again to stop now"
ENDING = "{} received: stopping after this epoch"
ENDS = (signal.SIGTERM, signal.SIGHUP)
INSIST_S = 1.0
"""How often an interrupt is sent again, because some calls ignore one."""
LOOK_S = 0.1
"""How often the thread that waits looks around."""
ENDS_S = 30.0
"""How long work may take to end once it is left. What stands still even then ends with the process."""


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
        if not _in_main_thread():
            yield
            return
        if getattr(signal.getsignal(signal.SIGINT), "came", False):
            raise KeyboardInterrupt
        end, start = os.pipe()
        os.set_blocking(start, False)
        wakeup = signal.set_wakeup_fd(start, warn_on_full_buffer=False)
        try:
            with handled(self._caught):
                threading.Thread(target=self._count, args=(end,), name="signals", daemon=True).start()
                yield
        finally:
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


class Apart:
    """Work that is done once, in a thread. `leaving`: that it must end, because nobody waits for it any more."""

    def __init__(self) -> None:
        self.leaving = threading.Event()
        self._ended = threading.Event()
        self._shares = False
        self._error: BaseException | None = None

    def do(self, work: Callable[[], None], watch: Callable[[], None] = lambda: None) -> None:
        """Does the work, and calls `watch` meanwhile. If that raises, and at Ctrl-C, the work is left.

        Raises: what the work or `watch` raises; KeyboardInterrupt.
        """
        threading.Thread(target=self._do, args=(work,), name="apart", daemon=True).start()
        try:
            while not self._ended.wait(LOOK_S):
                _hear_again()
                watch()
        finally:
            with _undisturbed():
                self.leaving.set()
                if self._shares:
                    self._ended.wait(ENDS_S)
        if self._error is not None:
            raise self._error

    def share(self) -> None:
        """Called by the work before it uses what belongs to whoever waits: from here on its end is waited for.

        Raises: KeyboardInterrupt if it was left before.
        """
        self._shares = True
        self.check()

    def check(self) -> None:
        """Called by the work now and then. Raises: KeyboardInterrupt if it was left."""
        if self.leaving.is_set():
            raise KeyboardInterrupt

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # `do` raises it in the other thread
            self._error = error
        finally:
            self._ended.set()


@contextmanager
def handled(handler: Callable[[int, Any], object], may_be_ignored: Sequence[int] = ENDS) -> Iterator[dict[int, Any]]:
    """Handles SIGINT, SIGTERM and SIGHUP by one function within the block; its value is the handlers of before.

    A signal of `may_be_ignored` that is ignored, such as SIGHUP by `nohup`, stays ignored. At the end the handlers of
    before are back, whatever other code did to them. In another thread than the main one nothing is handled.
    """
    if not _in_main_thread():
        yield {}
        return
    known: dict[int, Any] = {one: signal.getsignal(one) for one in (signal.SIGINT, *ENDS)}
    try:
        for one, before in known.items():
            if before != signal.SIG_IGN or one not in may_be_ignored:
                signal.signal(one, handler)
        yield known
    finally:
        for one, before in known.items():
            signal.signal(one, before)


def _hear_again() -> None:
    """Puts Python's handlers back where other code took the signals that end a study, as Ray does from its thread.

    Ray's own handler of SIGTERM ends the process three seconds later.
    """
    if _in_main_thread():
        for one in (signal.SIGINT, *ENDS):
            if (known := signal.getsignal(one)) is not None:
                signal.signal(one, known)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Delays the signals that end a study until the end of the block. `StopSignals` still counts them."""
    came: list[int] = []
    with handled(lambda number, _: came.append(number)) as known:
        yield
    for number in came:
        if callable(before := known[number]):
            before(number, None)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
