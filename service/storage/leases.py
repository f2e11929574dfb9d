"""Decides which driver (a process that runs a study) may write to a study, in a home and at a storage.

On one machine a locked file decides, and a killed driver leaves no lock. Between hosts, whose file system may lack
working locks, the files `drivers/<number>.json` decide: only one driver can create a file of a given name. It touches
the file every few seconds while it lives. A driver that begins removes the files of all lower numbers before it writes
anything. So a driver whose own file is gone has lost the study, which it finds out before its next fact.

The age of a file is the difference of two times that the file server has set; the clocks of the hosts do not matter.

Homes on different machines may share a storage, and no lock reaches both. There, too, each driver takes a number that
no other one has, and writes its file again every few seconds, as a sign of life; a driver that finds a greater number
than its own has lost the study.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from service.storage import plain_json
from trainables.spec import LocusError
from trainables.whole_files import write_whole

if TYPE_CHECKING:
    from trainables.remote_files import RemoteFolder

DRIVERS = "drivers"
"""The name of the folder beside a study's journal that holds the files of its drivers."""
BEAT_S = 5.0
"""The seconds between two signs of life of a driver."""
STALE_S = 60.0
"""The seconds without a sign of life after which another driver may take over the study of one on another host."""
TRIES = 50
PAUSE_S = 0.02
"""How many times, and after how many seconds, a driver tries again if others begin at the same moment."""
BOOT = Path("/proc/sys/kernel/random/boot_id")


class HeldError(LocusError):
    """The error for a study that another driver runs."""


class TakenOverError(LocusError):
    """The error of a driver whose study another driver has taken over: it must write nothing more."""


@dataclass(frozen=True)
class Host:
    """A machine. `boot` changes with each start of the machine; all its containers have the same `boot`."""

    name: str
    boot: str

    @classmethod
    def here(cls) -> Host:
        """Returns the machine of this process. If its system gives starts no id, `boot` is the machine's name."""
        try:
            return cls(socket.gethostname(), BOOT.read_text(encoding="utf-8").strip())
        except OSError:
            return cls(socket.gethostname(), socket.gethostname())


@dataclass(frozen=True)
class Holder:
    """The newest driver of a study, as read from its file. `beat` is the time of its last sign of life.

    Units: `beat` in seconds since 1970, by the clock of the file server.
    """

    number: int
    host: Host
    pid: int
    ended: bool = False
    beat: float = 0.0

    def __str__(self) -> str:
        return f"on {self.host.name} (process {self.pid})" if self.pid else "which begins at this moment"

    def is_elsewhere(self, here: Host | None = None) -> bool:
        """Returns whether this driver is on another machine than `here`: then no lock tells whether it lives."""
        return self.host.boot != (here or Host.here()).boot


def newest(folder: Path) -> Holder | None:
    """Returns the driver with the greatest number; None if the study had no driver yet. Cost: 0.1 ms.

    If its file is not written yet, or was cut by a crash, its host is unknown, and its `pid` is 0.
    """
    for _ in range(TRIES):
        numbers = _numbers(folder)
        if not numbers:
            return None
        try:
            with (folder / f"{numbers[-1]}.json").open("rb") as file:  # to open it makes NFS ask the server
                content, beat = file.read(), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:  # another driver took over between the two looks
            time.sleep(PAUSE_S)
            continue
        try:
            values = plain_json(content)
            return Holder(numbers[-1], Host(**values["host"]), values["pid"], values["ended"], beat)
        except (ValueError, KeyError, TypeError):
            return Holder(numbers[-1], Host("", ""), 0, beat=beat)
    raise FileNotFoundError(f"{folder} must have the file of its newest driver")


def at_work_elsewhere(folder: Path, here: Host | None = None, stale_s: float = STALE_S) -> Holder | None:
    """Returns the driver that runs a study on another host than `here`; None if there is none. Cost: 0.2 ms."""
    holder = at_work(folder, stale_s)
    return holder if holder and holder.is_elsewhere(here) else None


def at_work(folder: Path, stale_s: float = STALE_S) -> Holder | None:
    """Returns the driver of a study that gave a sign of life in the last `stale_s` seconds, or None. Cost: 0.2 ms."""
    holder = newest(folder)
    if holder is None or holder.ended:
        return None
    try:  # of the machine that keeps the folder
        with tempfile.TemporaryFile(dir=folder) as file:
            os.utime(file.fileno())
            now = os.fstat(file.fileno()).st_mtime
    except OSError:  # it cannot be written
        now = time.time()
    return holder if abs(now - holder.beat) < stale_s else None


def held(folder: Path, holder: Holder | None) -> HeldError:
    """Returns the error that says that another driver runs a study."""
    who = f", {holder}" if holder and not holder.ended else ""
    return HeldError(f"{folder.parent.name} is being run by another driver{who}; see locus status")


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.json") if path.stem.isdecimal())


class Session:
    """The time in which one driver may write to a study. Call `begin`, then `look` before each write, then `end`."""

    def __init__(
        self, folder: Path, host: Host | None = None, *, beat_s: float = BEAT_S, stale_s: float = STALE_S
    ) -> None:
        self.folder, self.host, self.beat_s, self.stale_s = folder, host or Host.here(), beat_s, stale_s
        self.number = 0
        self._lost: str | None = None

    def begin(self, above: int = 0) -> None:
        """Takes a number for this driver, greater than `above` and than those of all earlier drivers.

        Call it while you hold the study's lock: an earlier driver on this machine has ended then.
        Raises: HeldError if a driver on another host is at work, or begins at the same moment.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(TRIES):
            before = set(_numbers(self.folder))
            if other := at_work_elsewhere(self.folder, self.host, self.stale_s):
                raise held(self.folder, other)
            if self._create(max(above, *before, 0) + 1, before):
                break
            time.sleep(PAUSE_S)
        else:
            raise held(self.folder, None)
        for number in _numbers(self.folder):
            if number < self.number:
                self._file(number).unlink(missing_ok=True)
        self._lost, self._over = None, threading.Event()
        self._thread = threading.Thread(target=self._beat, args=(self._over,), name="heartbeat", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Gives a sign of life. Cost: 4 us on a local disk. Raises: TakenOverError if the study was taken over."""
        self.recall()
        mine, study = self._file(self.number), self.folder.parent.name
        try:
            os.utime(mine)
        except FileNotFoundError:
            other = newest(self.folder)
            if other is None or other.number <= self.number:
                self.lose(f"{mine} must be there while this driver runs {study}, got none")
            else:
                self.lose(
                    f"another driver, {other}, has taken {study} over, because it saw no sign of life of this one; "
                    "what this one had recorded before is kept"
                )
            self.recall()

    def recall(self) -> None:
        """Checks without reading any file. Raises: TakenOverError if an earlier `look` or `lose` found it out."""
        if self._lost is not None:
            raise TakenOverError(self._lost)

    def lose(self, why: str) -> None:
        """Records that another driver has taken the study over, and why; the first reason given counts."""
        self._lost = self._lost or why

    def end(self) -> None:
        """Records that this driver has ended, so that the next one need not wait."""
        self._over.set()
        self._thread.join(self.beat_s)
        with suppress(TakenOverError, OSError):  # of a driver that cannot say so, the next one sees no sign of life
            self.look()
            write_whole(self._file(self.number), self._content(ended=True))

    def _file(self, number: int) -> Path:
        return self.folder / f"{number}.json"

    def _create(self, number: int, before: set[int]) -> bool:
        """Creates the file of a number. Returns False if another driver has created one that is not in `before`."""
        path = self._file(number)
        try:
            opened = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return False
        try:
            with os.fdopen(opened, "w", encoding="utf-8") as file:
                file.write(self._content())
                file.flush()
                os.fsync(file.fileno())  # after a crash an empty file would look like that of a driver on another host
        except OSError:  # a full disk: an empty file would hold everybody up
            path.unlink(missing_ok=True)
            raise
        if {*_numbers(self.folder)} - before != {number}:
            path.unlink(missing_ok=True)
            return False
        self.number = number
        return True

    def _content(self, *, ended: bool = False) -> str:
        return json.dumps({"host": asdict(self.host), "pid": os.getpid(), "ended": ended})

    def _beat(self, over: threading.Event) -> None:
        while not over.wait(self.beat_s):
            try:
                self.look()
            except TakenOverError:
                return
            except OSError:  # the server is away: the next beat asks again
                continue


SPACE = Path("/proc/self/ns/pid")
"""The link that identifies the group of processes that see each other; two containers are two groups."""

UNKNOWN: dict[str, object] = {"host": "an unknown machine", "pid": 0, "space": "", "ended": False}
"""The values of a driver whose file is not written yet, or was cut by a crash; it counts as living until `STALE_S`."""


class Lease:
    """The right of one driver to send files of a study to a storage: `begin`, `beat` every few seconds, then `end`.

    Units: `stale_s` in seconds, by the clock of the storage.
    """

    def __init__(self, id: str, drivers: RemoteFolder, stale_s: float = STALE_S) -> None:
        self._id, self._drivers, self._stale_s = id, drivers, stale_s
        here, seen = Host.here(), os.readlink(SPACE) if SPACE.exists() else ""
        self._me: dict[str, object] = {
            "host": here.name, "pid": os.getpid(), "space": f"{here.boot} {seen}", "mark": uuid.uuid4().hex,
            "ended": False,
        }  # fmt: skip
        self.number = 0

    def begin(self, above: int = 0) -> None:
        """Takes a number above `above` and those of all earlier drivers.

        Raises: HeldError if another driver lives, or begins at the same moment.
        """
        last = max(self._numbers(), default=0)
        other = self._read(last) if last else None
        if other is not None and self._lives(other, last):
            who = f"on {other['host']} (process {other['pid']})" if other["pid"] else "which begins now"
            raise HeldError(
                f"{self._id} is being run by another driver with this storage, {who}; if that machine is dead, try "
                f"again in {self._stale_s:g} s"
            )
        self.number = max(above, last) + 1
        created = self._drivers.create(f"{self.number}.json", json.dumps(self._me).encode())
        numbers = self._numbers()
        late = max(numbers, default=0) > self.number  # other drivers have begun since this one looked
        if created and late:
            self._drivers.remove(f"{self.number}.json")
        if not created or late:
            raise HeldError(f"{self._id} is being run by another driver with this storage, which begins now")
        for number in numbers:
            if number < self.number:
                self._drivers.remove(f"{number}.json")

    def beat(self) -> str | None:
        """Gives a sign of life. Returns None, or words why the study is lost. Raises: StorageError, after one try."""
        drivers = replace(self._drivers, patience=0.0)
        last = max(self._numbers(drivers), default=0)
        other = self._read(max(last, self.number), drivers) or (UNKNOWN if last > self.number else self._me)
        if other.get("mark") != self._me["mark"]:  # of a greater number, or of this one, if the folder was emptied
            return (
                f"another driver, on {other['host']}, has taken {self._id} over with this storage, because it saw no "
                "sign of life of this one; what this one had sent before is kept"
            )
        drivers.write(f"{self.number}.json", json.dumps(self._me).encode())
        return None

    def end(self) -> None:
        """Records that this driver has ended, so that the next one need not wait."""
        from trainables.remote_files import StorageError  # here, for fsspec takes a tenth of a look's time

        with suppress(StorageError):  # the next driver sees no sign of life
            if self.beat() is None:
                content = json.dumps(self._me | {"ended": True}).encode()
                replace(self._drivers, patience=0.0).write(f"{self.number}.json", content)

    def _lives(self, other: dict[str, object], number: int) -> bool:
        """Returns whether another driver, given by its file's values and its number, still runs."""
        if other.get("ended"):
            return False
        if other["space"] == self._me["space"]:
            try:
                os.kill(int(str(other["pid"])), 0)
            except ProcessLookupError:
                return False
            except PermissionError:  # another person's process
                pass
        beat = self._drivers.modified(f"{number}.json")
        clock = f"clock-{self._me['mark']}"
        self._drivers.write(clock, b"")
        now = self._drivers.modified(clock)
        self._drivers.remove(clock)
        return beat is not None and abs((time.time() if now is None else now) - beat) < self._stale_s

    def _numbers(self, drivers: RemoteFolder | None = None) -> list[int]:
        names = (name.removesuffix(".json") for name in (drivers or self._drivers).names())
        return [int(name) for name in names if name.isdigit()]

    def _read(self, number: int, drivers: RemoteFolder | None = None) -> dict[str, object] | None:
        """Returns the values in the file of a driver; None if it is gone, `UNKNOWN` if it is not written yet."""
        content = (drivers or self._drivers).read(f"{number}.json")
        if content is None:
            return None
        try:
            values = plain_json(content)
        except ValueError:
            return UNKNOWN
        return {**UNKNOWN, **values} if isinstance(values, dict) else UNKNOWN
