"""Lets several drivers share a machine, a home and its runs, and says in which folder each run works."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from service.planning.placement import Placement
from service.storage import plain_json
from service.storage.home import Home, StudyFolder, remove_member
from service.storage.remote import Copies
from trainables.launch.job import Job
from trainables.launch.work_files import CHECKPOINT, EMA_WEIGHTS, WEIGHTS, is_uri
from trainables.remote_files import RemoteFolder
from trainables.whole_files import write_whole

PATIENCE_S = 2.0
"""How long a driver waits while others look whether there is room; a look takes some milliseconds. Units: seconds."""
ASKS_S = 30.0
"""How long a waiting driver keeps its turn after its last question: a suspended one blocks nobody. Units: seconds."""
TURN_S = 60.0
"""How long a driver keeps its last place while others wait; they need seconds to start their Ray. Units: seconds."""


@dataclass(frozen=True)
class Presence:
    """What a driver tells the other drivers of its home, in a file.

    `running` is the number of its runs in flight. `fits` is how many runs of their size fit the machine. `waits` is the
    time since when the driver has trained nothing, because there was no room; None if it does not wait.
    `asked` is the time when it asked last whether there is room.
    Units: seconds of `time.monotonic`, a clock that all processes of a machine share, and that nobody sets.
    """

    host: str
    device: str
    running: int = 0
    fits: int = 1
    waits: float | None = None
    asked: float = 0.0

    @classmethod
    def read(cls, path: Path) -> Presence | None:
        try:
            return cls(**plain_json(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None


class Neighbours:
    """The other drivers of a home on this machine and device, as one driver sees them.

    `id` is the id of the study of this driver. `others` holds what the other drivers told when this one last read it,
    by the ids of their studies.
    """

    def __init__(self, home: Home, id: str, placement: Placement) -> None:
        self.home, self.id = home, id
        self.path = home.study(id).presence
        fits = placement.fits or placement.max_concurrent
        self._told = Presence(socket.gethostname(), placement.device, fits=fits)
        self.others: dict[str, Presence] = {}
        self._turn_began: float | None = None

    def admit(self, running: int, most: int) -> bool:
        """Returns whether this driver may train one more run, and tells the other drivers.

        Each driver gets an equal share of the runs that fit, one at least. It starts no run that the machine has no
        place for beside the runs of the others. Drivers that train nothing come first, in the order in which they began
        to wait; otherwise a study whose run needs the whole machine would wait for ever. But each driver keeps its last
        place for `TURN_S`.

        Args:
            running: How many runs this driver trains now.
            most: How many runs it may train at most, if no other driver is there.
        """
        now = time.monotonic()
        waits = self._told.waits or now
        begins = self._turn_began is None or self._told.waits is not None
        keeps = running == 0 and not begins and now - (self._turn_began or 0.0) < TURN_S
        try:
            with FileLock(self.home.root / "presence.lock", timeout=PATIENCE_S):
                self.others = self._read()
                taken = sum(other.running / max(other.fits, 1) for other in self.others.values())
                fits = int(self._told.fits * (1 - taken) + 1e-9) if self.others else most
                turn = keeps or not any(
                    other.waits is not None and other.waits < waits and abs(now - other.asked) < ASKS_S
                    for other in self.others.values()
                )
                admitted = turn and running < min(self.share(most), fits)
                if admitted and running == 0 and begins:
                    self._turn_began = now
                waiting = None if admitted or running else waits
                self._tell(replace(self._told, running=running + admitted, waits=waiting, asked=now))
        except Timeout:  # whoever looks was suspended; it is asked again
            return False
        return admitted

    def tell(self, running: int = 0) -> None:
        """Tells the other drivers that this driver is there, and how many runs it trains now."""
        self._tell(replace(self._told, running=running))

    def share(self, most: int) -> int:
        """Returns how many of `most` runs this driver may train together, beside the drivers in `others`."""
        if not self.others:
            return most
        return min(most, max(1, self._told.fits // (len(self.others) + 1)))

    def close(self) -> None:
        """Removes the file by which this driver tells that it is there. A file that another host wrote stays."""
        presence = Presence.read(self.path)
        if presence is not None and presence.host == self._told.host:
            self.path.unlink(missing_ok=True)

    def _tell(self, presence: Presence) -> None:
        if presence != self._told or not self.path.exists():
            write_whole(self.path, json.dumps(asdict(presence)))
            self._told = presence

    def _read(self) -> dict[str, Presence]:
        """Returns what the other drivers tell, by study, and removes the files of drivers that were killed.

        A killed driver leaves its file, but not its lock.
        """
        others: dict[str, Presence] = {}
        for path in (self.home.root / "studies").glob("*/presence.json"):
            id = path.parent.name
            if id == self.id or (presence := Presence.read(path)) is None:
                continue
            if (presence.host, presence.device) != (self._told.host, self._told.device):
                continue
            with suppress(OSError):  # a folder that somebody forgets at this moment
                try:
                    with FileLock(self.home.study(id).lock, timeout=0):
                        path.unlink()
                except Timeout:
                    others[id] = presence
        return others


class InFlight:
    """The runs in flight: the jobs of one driver, and the runs that it needs and other drivers of the home train.

    `jobs` holds the jobs of this driver by the keys of their runs. `elsewhere` holds the code digest of each run that
    another driver trains, by key. `neighbours` are the drivers that share this machine; None on a cluster, which Ray
    shares out.
    """

    def __init__(self, home: Home, neighbours: Neighbours | None = None) -> None:
        self.home, self.neighbours = home, neighbours
        self.jobs: dict[str, Job] = {}
        self.elsewhere: dict[str, str] = {}
        self._claims: dict[str, FileLock] = {}
        self._tell()

    @property
    def keys(self) -> set[str]:
        """The keys of all runs that are being trained, here or by another driver of the home."""
        return {*self.jobs, *self.elsewhere}

    def claim(self, key: str, code: str) -> bool:
        """Claims a run for this driver, and returns whether it got it: another driver may train it by the same code."""
        lock = self._acquired(key, code)
        if lock is None:
            self.elsewhere[key] = code
            self._tell()
            return False
        self._claims[key] = lock
        return True

    def end(self, key: str) -> bool:
        """Forgets a run and gives its claim back. Returns whether this driver was training the run."""
        if lock := self._claims.pop(key, None):
            _give_back(lock)
        was_in_flight = self.jobs.pop(key, None) is not None
        self._tell()
        return was_in_flight

    def look(self) -> None:
        """Forgets the runs in `elsewhere` that no other driver trains any more. Cost: 50 us for each of these runs."""
        for key, code in [*self.elsewhere.items()]:
            if lock := self._acquired(key, code):
                _give_back(lock)
                del self.elsewhere[key]

    def close(self) -> None:
        """Gives back the claims and the place on the machine for which other drivers may wait."""
        for key in [*self._claims]:
            self.end(key)
        if self.neighbours:
            self.neighbours.close()

    def _tell(self) -> None:
        if self.neighbours:
            self.neighbours.tell(len(self.jobs))

    def _acquired(self, key: str, code: str) -> FileLock | None:
        """Returns the lock of a run and a code, now held by this driver; None if another driver holds it."""
        path = self.home.claims / f"{key}.{code}"
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, thread_local=False)  # taken in Ray's thread, and given back in another
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        return lock


def _give_back(lock: FileLock) -> None:
    """Removes the file of a lock while it is locked, so that no other driver locks the old file; then unlocks it."""
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


@dataclass(frozen=True)
class WorkFolders:
    """The work folders of runs that are not finished. They lie in the home or, if no disk is shared, at the storage.

    `copies` are the files at the study's storage; with None the folders lie in the home.
    """

    study: StudyFolder
    copies: Copies | None = None

    def begin(self, key: str, code: str, attempt: int) -> str:
        """Returns the path or URI of a new attempt's folder. The checkpoint of the attempt before is copied into it."""
        folder = self._folder(key, code)
        if self.copies is None:
            self.study.work(key, code, attempt).mkdir(parents=True, exist_ok=True)
        folder.copy(f"{attempt - 1}/{CHECKPOINT}", f"{attempt}/{CHECKPOINT}")
        return folder.inside(str(attempt)).uri

    def weights(self, job: Job) -> Path | None:
        """Returns the file on this machine with the weights that an attempt left; None if it left no weights."""
        path = self.study.work(job.run.key, job.code.digest, job.attempt) / WEIGHTS
        if is_uri(job.folder):
            remote = RemoteFolder(job.folder)
            remote.get(WEIGHTS, path)
            remote.get(EMA_WEIGHTS, path.with_name(EMA_WEIGHTS))
        return path if path.exists() else None

    def clear(self, *answered: tuple[str, str]) -> None:
        """Removes the folders of all attempts of these runs. Each run is given by its key and its code digest."""
        for key, code in answered:
            with suppress(OSError):  # what stays is removed by the next driver
                remove_member(self.study.work_folders, key, code)
        if self.copies is not None and len(answered) == 1:
            self._folder(*answered[0]).remove("")
        elif self.copies is not None:  # asks the storage once which of them are there
            self.copies.clear_work(answered)

    def _folder(self, key: str, code: str) -> RemoteFolder:
        """Returns the folder that holds the folders of a run's attempts."""
        return RemoteFolder(self.copies.work if self.copies else str(self.study.work_folders)).inside(f"{key}/{code}")


def checkpoint_time(folder: str) -> float | None:
    """Returns when a work folder's checkpoint was last written; None if this machine sees no checkpoint there."""
    with suppress(OSError):
        return RemoteFolder(folder, patience=0.0).modified(CHECKPOINT)
    return None
