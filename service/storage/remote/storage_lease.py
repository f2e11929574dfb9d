"""Which driver may send to a storage: homes on different machines may share one, and no lock reaches both.

As in a home (`service.storage.driver_lease`), each driver takes a number that no other one has, and gives a sign of
life every few seconds; who finds a greater number than its own has lost the study.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import replace
from pathlib import Path

from service.storage.driver_lease import STALE_S, HeldError, Host
from service.storage.plain_json import plain_json
from trainables.remote_files import RemoteFolder, StorageError

SPACE = Path("/proc/self/ns/pid")
"""Names the processes that see each other; those of two containers do not."""

UNKNOWN: dict[str, object] = {"host": "an unknown machine", "pid": 0, "space": "", "ended": False}
"""A driver whose file is not written yet, or was cut by a crash: it counts as living until its file is stale."""


class Lease:
    """The right of one driver to send: `begin`, `beat` every few seconds, `end`. `drivers`: the folder of all of them.

    Units: `stale_s` in seconds, by the clock of the storage.
    """

    def __init__(self, id: str, drivers: RemoteFolder, stale_s: float = STALE_S) -> None:
        self._id, self._drivers, self._stale_s = id, drivers, stale_s
        self._me = {"host": Host.here().name, "pid": os.getpid(), "space": _space(), "mark": uuid.uuid4().hex}
        self.number = 0

    def begin(self) -> None:
        """Takes the next number. Raises: HeldError if another driver lives, or begins at the same moment."""
        last = max(self._numbers(), default=0)
        other = self._read(last) if last else None
        if other is not None and self._lives(other, last):
            who = f"on {other['host']} (process {other['pid']})" if other["pid"] else "which begins now"
            raise HeldError(
                f"{self._id} is being run by another driver with this storage, {who}; if that machine is dead, try "
                f"again in {self._stale_s:g} s"
            )
        self.number = last + 1
        created = self._drivers.create(_name(self.number), self._content())
        numbers = self._numbers()
        late = max(numbers, default=0) > self.number  # other drivers have begun since this one looked
        if created and late:
            self._drivers.remove(_name(self.number))
        if not created or late:
            raise HeldError(f"{self._id} is being run by another driver with this storage, which begins now")
        for number in numbers:
            if number < self.number:
                self._drivers.remove(_name(number))

    def beat(self) -> str | None:
        """Gives a sign of life. Returns why the study is lost, where it is. Raises: StorageError, after one try."""
        drivers = replace(self._drivers, patience=0.0)
        last = max(self._numbers(drivers), default=0)
        if last > self.number:
            other = self._read(last) or UNKNOWN
            return (
                f"another driver, on {other['host']}, has taken {self._id} over with this storage, because this one "
                f"gave no sign of life for {self._stale_s:g} s; what it had sent before is kept"
            )
        drivers.write(_name(self.number), self._content())
        return None

    def end(self) -> None:
        """Records that this driver has ended, so that the next one need not wait."""
        try:
            if self.beat() is None:
                replace(self._drivers, patience=0.0).write(_name(self.number), self._content(ended=True))
        except StorageError:
            return  # the next driver sees no sign of life

    def _lives(self, other: dict[str, object], number: int) -> bool:
        if other.get("ended"):
            return False
        if other["space"] == self._me["space"] and not _is_alive(int(str(other["pid"]))):
            return False
        beat, now = self._drivers.modified(_name(number)), self._server_time()
        return beat is not None and abs(now - beat) < self._stale_s

    def _server_time(self) -> float:
        name = f"clock-{self._me['mark']}"
        self._drivers.write(name, b"")
        now = self._drivers.modified(name)
        self._drivers.remove(name)
        return now if now is not None else time.time()

    def _numbers(self, drivers: RemoteFolder | None = None) -> list[int]:
        names = (name.removesuffix(".json") for name in (drivers or self._drivers).names())
        return [int(name) for name in names if name.isdigit()]

    def _read(self, number: int) -> dict[str, object] | None:
        """What the file of a driver tells; None if it is gone. One that is not written yet tells nothing."""
        content = self._drivers.read(_name(number))
        if content is None:
            return None
        try:
            found = plain_json(content)
        except ValueError:
            return UNKNOWN
        return {**UNKNOWN, **found} if isinstance(found, dict) else UNKNOWN

    def _content(self, *, ended: bool = False) -> bytes:
        return json.dumps({**self._me, "ended": ended}).encode()


def _name(number: int) -> str:
    return f"{number}.json"


def _space() -> str:
    """The start of this machine, and which of its processes this one sees."""
    seen = os.readlink(SPACE) if SPACE.exists() else ""
    return f"{Host.here().boot} {seen}"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another person's process
        return True
    return True
