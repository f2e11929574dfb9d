"""Notices a run that gives no sign of life, and a run that takes longer than it may.

A sign of life is a report, or a new checkpoint inside an epoch. Only time in which the study itself was awake counts: a
laptop that slept, or a driver that waited for a disk, takes no run's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

SILENT_S = 300.0
"""How long any run may be silent. Units: seconds."""
PAUSES = 10
"""How much longer than its longest pause before a run may be silent."""
FIRST_S = 3600.0
"""How long a run may be silent before its first sign: it imports torch, decodes images, and trains a first epoch."""
OVERDUE = "it took longer than --run-hours"
"""How the reason of a run begins whose own time is over."""
AWAKE_S = 1.0
"""How much time may count between two looks. Ray Tune looks ten times a second."""


@dataclass
class _Watched:
    begun: float
    seen: float
    signs: int = 0
    longest: float = 0.0
    sign: object = None


class Watchdog:
    """Watches runs by any name. `run_hours`: how long a run may take; None sets no limit. `clock`: seconds.

    Call `look` often, `begin` and `end` for each run, `report` when it reports. `overdue` and `silent` give the reason
    why a run must end, or None.
    """

    def __init__(self, run_hours: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.run_hours, self._clock = run_hours, clock
        self._looked = clock()
        self._awake = 0.0
        self._runs: dict[str, _Watched] = {}

    def look(self) -> None:
        """Counts the time since the last look."""
        now = self._clock()
        self._awake += min(now - self._looked, AWAKE_S)
        self._looked = now

    def begin(self, name: str, sign: object = None) -> None:
        """A run begins, with the `sign` that it finds there."""
        self._runs[name] = _Watched(self._awake, self._awake, sign=sign)

    def end(self, name: str) -> None:
        """A run has ended, or is unknown."""
        self._runs.pop(name, None)

    def report(self, name: str) -> None:
        """A run has given a sign of life."""
        if run := self._runs.get(name):
            pause, run.seen = self._awake - run.seen, self._awake
            run.longest = pause if run.signs < 2 else max(run.longest, pause)  # the start is longer than an epoch
            run.signs += 1

    def sign(self, name: str, sign: object) -> None:
        """What a run leaves behind, such as the time of its checkpoint: a sign of life where it has changed."""
        run = self._runs.get(name)
        if run is not None and sign is not None and sign != run.sign:
            run.sign = sign
            self.report(name)

    def overdue(self, name: str) -> str | None:
        """Why a run must end at its report; None if it may go on."""
        run = self._runs.get(name)
        if run is None or self.run_hours is None or self._awake - run.begun < self.run_hours * 3600:
            return None
        return f"{OVERDUE} {self.run_hours:g}; the same command continues it"

    def silent(self, name: str) -> str | None:
        """Why a run must be killed, because it no longer reports; None if it may go on."""
        run = self._runs.get(name)
        if run is None:
            return None
        silence = self._awake - run.seen
        if (overdue := self.overdue(name)) and silence >= SILENT_S:
            return overdue
        if silence < (max(SILENT_S, PAUSES * run.longest) if run.signs else FIRST_S):
            return None
        before = f"and {_said(run.longest)} at most before" if run.signs else "since its start"
        return f"it gave no sign of life for {_said(silence)}, {before}: it was killed"


def _said(seconds: float) -> str:
    """A time in words: minutes, or seconds below one minute."""
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
