"""The runs that a driver trains now, and whether it may train one more beside the other drivers of its home.

Each run is claimed, so that no other driver trains it at the same time. A claim is a locked file.
The system unlocks the files of a killed process, so its runs can be trained by others.
"""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout

from service.execution.neighbours import Neighbours
from service.storage.home import Home
from trainables.launch.job import Job


class InFlight:
    """The jobs of one driver by run key, and the runs that it wants while other drivers of the home train them.

    `elsewhere`: the code of each of those runs, by key. `neighbours`: the drivers that share this machine; None on a
    cluster, where Ray shares it out.
    """

    def __init__(self, home: Home, neighbours: Neighbours | None = None) -> None:
        self.home, self.neighbours = home, neighbours
        self.jobs: dict[str, Job] = {}
        self.elsewhere: dict[str, str] = {}
        if neighbours:
            neighbours.begin()
        self._claims: dict[str, FileLock] = {}

    def __len__(self) -> int:
        return len(self.jobs)

    def __contains__(self, key: str) -> bool:
        return key in self.jobs

    @property
    def keys(self) -> set[str]:
        """The keys of all runs that are being trained, here or by another driver of the home."""
        return {*self.jobs, *self.elsewhere}

    def share(self, most: int) -> int:
        """How many runs may train together here: `most`, or this driver's share of the machine."""
        return self.neighbours.share(most) if self.neighbours else most

    def admit(self, most: int) -> bool:
        """Whether the machine has room for one more run, of `most` that may train together here."""
        return self.neighbours is None or self.neighbours.admit(len(self), most)

    def claim(self, key: str, code: str) -> bool:
        """Claims a run for this driver; False where another driver trains it by the same code."""
        lock = self._acquired(key, code)
        if lock is None:
            self.elsewhere[key] = code
            self._tell()
            return False
        self._claims[key] = lock
        return True

    def end(self, key: str) -> bool:
        """Forgets a run and gives its claim back; whether it was in flight."""
        if lock := self._claims.pop(key, None):
            _give_back(lock)
        known = self.jobs.pop(key, None) is not None
        self._tell()
        return known

    def look(self) -> None:
        """Forgets the runs elsewhere that no other driver trains any more. Cost: 50 us for each of them."""
        for key, code in [*self.elsewhere.items()]:
            if lock := self._acquired(key, code):
                _give_back(lock)
                del self.elsewhere[key]

    def close(self) -> None:
        """Gives back all that other drivers may wait for."""
        for key in [*self._claims]:
            self.end(key)
        if self.neighbours:
            self.neighbours.close()

    def _tell(self) -> None:
        if self.neighbours:
            self.neighbours.tell(len(self))

    def _acquired(self, key: str, code: str) -> FileLock | None:
        path = self.home.claim(key, code)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, thread_local=False)  # taken in Ray's thread, and given back in another
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        return lock


def _give_back(lock: FileLock) -> None:
    """Removes the file while it is locked: whoever opened it before finds it without a name, and opens a new one."""
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()
