"""The files of a job whose folder is a URI: the worker trains in a folder of its own, and sends copies to the URI.

So no disk is shared: the next attempt, on whatever node, goes on from the copy of the checkpoint, and the driver takes
the copy of the weights.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainables.launch.job import Job
from trainables.launch.scratch import scratch
from trainables.remote_files import RemoteFolder, StorageError, size_of

CHECKPOINT, WEIGHTS, EMA_WEIGHTS = "checkpoint.pt", "weights.pt", "weights_ema.pt"
"""What a training writes into its folder (`trainables.training.checkpoint`)."""
PATIENCE_S = 120.0
"""How long a worker asks a storage again that is away: less than a run may be silent."""
LIMIT_S = 120.0
"""How long one try of a worker's may last: with its patience, less than a run may be silent."""
LOOK_S = 2.0
"""How often a new checkpoint is looked for."""


class Sender:
    """Sends copies of what a training has written. A checkpoint that cannot be sent is sent later, with the next one.

    Only rank 0 writes files, so only its sender has any to send. It belongs to the thread that makes it.
    """

    def __init__(self, folder: Path, remote: RemoteFolder) -> None:
        self._folder, self._remote = folder, remote
        self._sent = self._state()
        self._owner = threading.current_thread()
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="copies", daemon=True)
        self._thread.start()

    def last(self) -> None:
        """Sends all files. Called before a run's last message. Raises: StorageError."""
        for name in (WEIGHTS, EMA_WEIGHTS):
            if (self._folder / name).exists():
                self._remote.put(self._folder / name, name)
        self._send()

    def close(self) -> None:
        """Sends the checkpoint of a run that was stopped. Raises: StorageError.

        In another thread than its owner's it neither waits nor sends: it is Python's garbage collector then that closes
        what nobody has closed, and it may run in fsspec's own thread, for which the copies wait, or in that of the
        copies.
        """
        self._end.set()
        if threading.current_thread() is not self._owner:
            return
        self._thread.join(self._remote.longest(size_of(self._folder / CHECKPOINT)))
        if self._thread.is_alive():
            raise StorageError(f"{self._remote.uri} does not answer: a checkpoint is still being sent")
        self._send()

    def _watch(self) -> None:
        while not self._end.wait(LOOK_S):
            try:
                self._send()
            except StorageError:
                continue  # the next attempt begins at an older checkpoint, which costs some epochs and no answer

    def _send(self) -> None:
        with self._lock:
            state = self._state()
            if state is not None and state != self._sent:
                self._remote.put(self._folder / CHECKPOINT, CHECKPOINT)
                self._sent = state

    def _state(self) -> tuple[int, int] | None:
        """Returns what tells one checkpoint from the next; each is a file of its own, renamed into place."""
        try:
            status = (self._folder / CHECKPOINT).stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino


@contextmanager
def local_files(job: Job) -> Iterator[tuple[Job, Sender | None]]:
    """A job whose files are on this node, and what sends copies; a job whose folder is a path stays as it is.

    Raises: StorageError if files cannot be fetched, or at the end where a checkpoint cannot be sent.
    """
    if not is_uri(job.folder):
        yield job, None
        return
    remote = RemoteFolder(job.folder, PATIENCE_S, LIMIT_S)
    with scratch("locus-run-") as files:
        folder = files / "work"
        folder.mkdir()
        remote.get(CHECKPOINT, folder / CHECKPOINT)
        parents = {}
        for use, uri in job.parents.items():
            parent_folder, _, name = uri.rpartition("/")
            if not RemoteFolder(parent_folder, PATIENCE_S, LIMIT_S).get(name, files / f"{use}.pt"):
                raise StorageError(f"{uri} must hold the weights of a parent, got no such file")
            parents[use] = str(files / f"{use}.pt")
        sender = Sender(folder, remote)
        try:
            yield job.model_copy(update={"folder": str(folder), "parents": parents}), sender
        except BaseException:
            with suppress(StorageError):  # the first error counts
                sender.close()
            raise
        sender.close()


def is_uri(folder: str) -> bool:
    """Returns whether a folder is a URI, and no path on this node."""
    return "://" in folder
