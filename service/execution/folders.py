"""Folders that running needs: the work folders of runs that are not finished, and a short one for Ray's sockets.

Work folders lie in the home, or at the storage if no disk is shared. A socket's path may have some 100 letters. Slurm
and macOS give longer temporary folders, so one with a short name is taken in their place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from service.storage.home import StudyFolder, remove_member
from service.storage.remote import Copies
from trainables.launch.work_files import CHECKPOINT, EMA_WEIGHTS, WEIGHTS, is_uri
from trainables.remote_files import RemoteFolder
from trainables.spec import LocusError


@dataclass(frozen=True)
class WorkFolders:
    """The work folders of a study. `copies`: those at its storage, where the folders lie then."""

    study: StudyFolder
    copies: Copies | None = None

    def begin(self, key: str, code: str, attempt: int) -> str:
        """Returns the folder of a new attempt, with the checkpoint of the attempt before it, if there is one."""
        folder = self._folder(key, code)
        if self.copies is None:
            self.study.work(key, code, attempt).mkdir(parents=True, exist_ok=True)
        folder.copy(f"{attempt - 1}/{CHECKPOINT}", f"{attempt}/{CHECKPOINT}")
        return folder.inside(str(attempt)).uri

    def weights(self, folder: str, key: str, code: str, attempt: int) -> Path | None:
        """Returns the file of the weights that an attempt left, on this machine; None if there are none."""
        here = self.study.work(key, code, attempt) / WEIGHTS
        if is_uri(folder):
            there = RemoteFolder(folder)
            there.get(WEIGHTS, here)
            there.get(EMA_WEIGHTS, here.with_name(EMA_WEIGHTS))
        return here if here.exists() else None

    def clear(self, key: str, code: str) -> None:
        """Removes the folders of all attempts of a run by a code."""
        self._clear_here(key, code)
        if self.copies is not None:
            self._folder(key, code).remove("")

    def clear_all(self, answered: Collection[tuple[str, str]]) -> None:
        """Removes those of many runs, by key and code; a storage is asked once which are there."""
        for key, code in answered:
            self._clear_here(key, code)
        if self.copies is not None:
            self.copies.clear_work(answered)

    def _clear_here(self, key: str, code: str) -> None:
        with suppress(OSError):  # what stays is removed by the next driver
            remove_member(self.study.work_folders, key, code)

    def _folder(self, key: str, code: str) -> RemoteFolder:
        base = self.copies.work if self.copies else str(self.study.work_folders)
        return RemoteFolder(base).inside(f"{key}/{code}")


def written(folder: str) -> float | None:
    """Returns when a work folder's checkpoint was last written; None if there is none, or it is not seen from here."""
    with suppress(OSError):
        return RemoteFolder(folder, patience=0.0).modified(CHECKPOINT)
    return None


LONGEST = 103 if sys.platform == "darwin" else 107
"""The longest path of a socket. Units: bytes."""
BELOW = Path("session_2026-11-25_08-31-57_648037_4194304") / "sockets" / ("s" * 28)
"""What Ray adds to its folder: the start of the session with the process's number, and a socket's name."""
SHORT = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
"""Folders with short names in which everybody may write."""


def socket_folder() -> Path:
    """Returns the folder of a local Ray: the one that Ray would take if its path is short, else one of the user's own.

    Raises: LocusError if none can be written.
    """
    usual = _usual()
    if _fits(usual) and _writable(usual):
        return usual
    for base in SHORT:
        own = base / f"locus-ray-{os.getuid()}"
        if _fits(own / "ray") and _is_own(own):
            return own / "ray"  # Ray lets everybody write into its own folder
    most = LONGEST - len(os.fsencode(BELOW)) - len("/ray/")
    raise LocusError(
        f"RAY_TMPDIR or TMPDIR must be a folder that can be written, with a path of at most {most} bytes, because the "
        f"sockets of Ray lie below it, got {usual.parent}; {', '.join(map(str, SHORT))} cannot be written either"
    )


def _usual() -> Path:
    """Returns Ray's own choice (`ray._common.utils.get_default_ray_temp_dir`), from the root on."""
    tmpdir = os.environ.get("TMPDIR", "/tmp") if sys.platform == "linux" else "/tmp"
    return Path(os.path.abspath(os.environ.get("RAY_TMPDIR", tmpdir) or "/tmp")) / "ray"


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / BELOW)) <= LONGEST


def _writable(folder: Path) -> bool:
    """Returns whether a folder can be written, or made."""
    return os.access(folder if folder.exists() else folder.parent, os.W_OK | os.X_OK)


def _is_own(folder: Path) -> bool:
    """Makes a folder that nobody else can use; whether it is there now and this user's."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    return folder.is_dir() and not folder.is_symlink() and status.st_uid == os.getuid() and not status.st_mode & 0o022
