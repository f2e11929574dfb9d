"""A folder that fsspec reaches (s3://bucket/x, file:///x, a path), its files written and read as a whole.

It is the only door to fsspec. A place that does not answer is asked again for some minutes, and then said.

Each try runs in a thread of its own, which is left alone if it does not come back: a server may stand still in a way
for which its library has no limit of time, a disk of another machine may be gone, and the one thread in which fsspec
does its work may be dead. A disk of this machine is no exception, as nothing in its path tells it from another one's.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import Any, TypeVar

from fsspec.asyn import iothread
from fsspec.core import url_to_fs
from fsspec.utils import get_protocol

from trainables.spec import LocusError
from trainables.whole_files import rename_durably

T = TypeVar("T")

PATIENCE_S = 300.0
"""How long a place that does not answer is asked again."""
AGAIN_S = 0.5
"""How long the second try waits; later ones wait twice as long each, up to `LONGEST_S`."""
LONGEST_S = 10.0
LIMIT_S = 300.0
"""How long a try may last in which nothing is seen to move."""
SLOWEST = 2**18
"""The slowest connection that is waited for: what is sent has a second for so many bytes. Units: bytes in a second."""
LOCAL = {"file": {"auto_mkdir": True}, "local": {"auto_mkdir": True}}
S3: dict[str, Any] = {"config_kwargs": {"connect_timeout": 10, "read_timeout": 30, "retries": {"max_attempts": 0}}}
"""Without it, a server that stands still would be waited for many minutes."""
OPTIONS: dict[str, dict[str, Any]] = {**LOCAL, "s3": S3, "s3a": S3}
FINAL = (
    PermissionError, NotADirectoryError, IsADirectoryError, ImportError, ValueError, TypeError, NotImplementedError,
    LocusError,
)  # fmt: skip
"""Errors that waiting does not mend."""


class StorageError(LocusError, OSError):
    """A place that does not answer, or refuses."""


class _StoodStillError(Exception):
    """A try that did not come back."""


@dataclass(frozen=True)
class RemoteFolder:
    """A folder at a URI; names in it may have slashes. `patience`: how long it is asked again, in seconds.

    A folder on a disk of this machine is asked once.

    `limit`: how long one try may last, in seconds; none follows a try that reaches it, as the later one could be
    overtaken by it. What is sent has a second more for each `SLOWEST` bytes, and a file that is fetched has the limit
    anew while it grows.

    Every method raises StorageError if the place refuses, or does not answer for so long. A try that was given up
    may still end later: what it wrote is then there.
    """

    uri: str
    patience: float = PATIENCE_S
    limit: float = LIMIT_S

    def inside(self, name: str) -> RemoteFolder:
        return replace(self, uri=f"{self.uri.rstrip('/')}/{name}")

    def longest(self, size: int) -> float:
        """Returns how long it may take until so many bytes are sent, or are known not to be. Units: seconds."""
        return self.patience + self._limit(size)

    def check(self) -> None:
        """Writes a file and removes it. Raises: StorageError, after one try, where that cannot be."""
        probe = f".locus-{uuid.uuid4().hex}"
        once = replace(self, patience=0.0)
        once.write(probe, b"locus")
        once.remove(probe)

    def has(self, name: str) -> bool:
        return bool(self._asked(lambda fs, path: fs.isfile(path), name))

    def read(self, name: str) -> bytes | None:
        """Returns the content of a small file; None if there is none. A large one needs `get`, which sees it grow."""
        try:
            return bytes(self._asked(lambda fs, path: fs.cat_file(path), name))
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a file; readers see the old one or the new one, never a part."""
        self._written(partial(_whole, fill=lambda fs, path: fs.pipe_file(path, content)), name, lambda: len(content))

    def create(self, name: str, content: bytes) -> bool:
        """Writes a file where none is, for one writer alone; False if another one has.

        On a disk, a reader that comes at the same moment may see it empty.
        """
        try:
            self._written(lambda fs, path: _exclusive(fs, path, content), name, lambda: len(content))
        except FileExistsError:
            return self.read(name) == content  # an answer that was lost on the way is asked for again
        return True

    def put(self, local: Path, name: str) -> None:
        fill = partial(_whole, fill=lambda fs, path: fs.put_file(str(local), path))
        self._written(fill, name, lambda: local.stat().st_size)

    def get(self, name: str, local: Path) -> bool:
        """Copies a file from here to a local path, as a whole; False if there is none."""
        draft = local.with_name(f"{local.name}.{uuid.uuid4().hex}.part")
        local.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._asked(lambda fs, path: fs.get_file(path, str(draft)), name, come=lambda: size_of(draft))
            rename_durably(draft, local)
        except FileNotFoundError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def copy(self, name: str, target: str) -> bool:
        """Copies a file to another name; False if there is none."""
        with tempfile.TemporaryDirectory(prefix="locus-copy-") as folder:
            local = Path(folder) / "file"
            is_there = self.get(name, local)
            if is_there:
                self.put(local, target)
        return is_there

    def names(self, under: str = "") -> list[str]:
        """Returns the names of all files here, or in a folder below, sorted."""

        def names_below(fs: Any, path: str) -> list[str]:
            root = fs._strip_protocol(self.uri).rstrip("/")
            return sorted(str(file)[len(root) :].lstrip("/") for file in fs.find(path))

        try:
            return [name for name in self._asked(names_below, under) if not name.endswith(".part")]
        except FileNotFoundError:
            return []

    def folders(self) -> list[str]:
        """Returns the names of the folders here, sorted."""
        try:
            entries = self._asked(lambda fs, path: fs.ls(path, detail=True), "")
        except FileNotFoundError:
            return []
        paths = [str(entry["name"]) for entry in entries if entry["type"] == "directory"]
        return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)

    def remove(self, name: str) -> None:
        """Removes a file, or all of a folder; nothing if there is none."""
        try:
            self._asked(_remove, name)
        except FileNotFoundError:
            return

    def modified(self, name: str) -> float | None:
        """Returns when a file was written, by the clock of the place; None if there is none. Units: seconds."""
        try:
            return float(self._asked(lambda fs, path: fs.modified(path).timestamp(), name))
        except FileNotFoundError:
            return None

    def arrow(self) -> tuple[str, Any]:
        """Returns the path, and the file system as pyarrow has them, for Ray."""
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        fs, path = _opened(self.uri)
        return path, PyFileSystem(FSSpecHandler(fs))

    def _limit(self, size: int) -> float:
        return self.limit + size / SLOWEST

    def _written(self, action: Callable[[Any, str], None], name: str, size: Callable[[], int]) -> None:
        try:
            self._asked(action, name, size)
        except FileNotFoundError as error:  # where a file is to be written, its bucket is missing
            raise StorageError(f"{self.uri} cannot be used ({_words(error)})") from error

    def _asked(
        self,
        action: Callable[[Any, str], T],
        name: str,
        size: Callable[[], int] = lambda: 0,
        come: Callable[[], int] = lambda: 0,
    ) -> T:
        """Returns what an action answers. `size`: the bytes that it sends. `come`: how many have come so far."""
        if threading.current_thread() is iothread[0]:  # only what the garbage collector calls gets there
            raise StorageError(f"{self.uri} cannot be asked in fsspec's own thread, which would wait for itself")
        patience = 0.0 if get_protocol(self.uri) in LOCAL else self.patience  # a disk that is full stays full
        until, pause = time.monotonic() + patience, AGAIN_S
        while True:
            try:
                # here, and not in the thread of the try: fsspec remembers some file systems thread by thread
                fs, root = _opened(self.uri)
                path = f"{root.rstrip('/')}/{name}" if name else root
                return _in_time(partial(action, fs, path), self._limit(size()), come)
            except (FileNotFoundError, FileExistsError):
                raise
            except _StoodStillError as error:
                raise StorageError(f"{self.uri} does not answer ({error})") from None
            except FINAL as error:
                raise StorageError(f"{self.uri} cannot be used ({_words(error)})") from error
            except Exception as error:  # libraries of places raise errors of many kinds
                if time.monotonic() + pause > until:
                    after = f" for {patience / 60:g} minutes" if patience else ""
                    raise StorageError(f"{self.uri} does not answer{after} ({_words(error)})") from error
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_S)


def _in_time(action: Callable[[], T], limit: float, come: Callable[[], int]) -> T:
    """Returns what an action answers in a thread of its own, which nobody waits for when the process ends.

    Raises: what the action raises; _StoodStillError after `limit` seconds in which `come` did not change.
    """
    answer: Future[T] = Future()
    threading.Thread(target=_answer, args=(action, answer), name="storage", daemon=True).start()
    try:
        seen = come()
        while not wait([answer], limit).done:
            if (now := come()) == seen:
                raise _StoodStillError(f"nothing came for {limit:.3g} s")
            seen = now
        return answer.result()
    finally:
        del answer  # an error holds this frame: together they would be a cycle, left for the garbage collector


def _answer(action: Callable[[], T], answer: Future[T]) -> None:
    try:
        answer.set_result(action())
    except BaseException as error:
        answer.set_exception(error)
    finally:
        del answer  # as above


def size_of(path: Path) -> int:
    """Returns the bytes of a local file; 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


def _opened(uri: str) -> tuple[Any, str]:
    """Returns the file system of a URI and the path in it. Nothing that it lists is remembered: others write, too."""
    fs, path = url_to_fs(uri, use_listings_cache=False, **OPTIONS.get(get_protocol(uri), {}))
    if hasattr(fs, "retries"):  # `RemoteFolder` tries again itself, for as long as it is told
        fs.retries = 1
    return fs, str(path)


def _is_local(fs: Any) -> bool:
    return "file" in (fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,))


def _whole(fs: Any, path: str, fill: Callable[[Any, str], None]) -> None:
    """Lets `fill` write a file so that no reader sees a part of it."""
    if not _is_local(fs):
        fill(fs, path)  # an object appears when it is whole
        return
    draft = f"{path}.{uuid.uuid4().hex}.part"
    try:
        fill(fs, draft)
        rename_durably(Path(draft), Path(path))
    except OSError:  # a full disk: what was written of it would fill the disk for ever
        Path(draft).unlink(missing_ok=True)
        raise


def _remove(fs: Any, path: str) -> None:
    """Removes a file, or all of a folder. Raises: FileNotFoundError.

    `rm` of all places but a disk takes a path with `[`, `*` or `?` for a pattern, which fits files of others.
    """
    if _is_local(fs) or not has_magic(path):
        fs.rm(path, recursive=True)
        return
    files = fs.find(path)
    if not files:
        raise FileNotFoundError(path)
    for file in files:
        fs.rm_file(file)


def _exclusive(fs: Any, path: str, content: bytes) -> None:
    if _is_local(fs):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as file:
            try:
                file.write(content)
                file.flush()
            except OSError:  # a full disk: an empty file would hold everybody up
                os.unlink(path)
                raise
        return
    fs.pipe_file(path, content, mode="create")


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}" if str(error) else type(error).__name__
