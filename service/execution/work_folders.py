"""The work folders of runs that are not finished: what a worker leaves there, and when it is removed.

They lie in the home, or at the storage where no disk is shared.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from service.storage.home import StudyFolder
from service.storage.remote.copies import Copies
from service.storage.removing import remove
from trainables.launch.work_files import CHECKPOINT, EMA_WEIGHTS, WEIGHTS, is_uri
from trainables.remote_files import RemoteFolder


@dataclass(frozen=True)
class WorkFolders:
    """The work folders of a study. `copies`: those at its storage, where the folders lie then."""

    study: StudyFolder
    copies: Copies | None = None

    def begin(self, key: str, code: str, attempt: int) -> str:
        """The folder of a new attempt, with the checkpoint of the attempt before it, if there is one."""
        folder = self._folder(key, code)
        if self.copies is None:
            self.study.work(key, code, attempt).mkdir(parents=True, exist_ok=True)
        folder.copy(f"{attempt - 1}/{CHECKPOINT}", f"{attempt}/{CHECKPOINT}")
        return folder.inside(str(attempt)).uri

    def weights(self, folder: str, key: str, code: str, attempt: int) -> Path | None:
        """The file of the weights that an attempt left, on this machine; None if there are none."""
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
            remove(self.study.work_folders, key, code)

    def _folder(self, key: str, code: str) -> RemoteFolder:
        base = self.copies.work if self.copies else str(self.study.work_folders)
        return RemoteFolder(base).inside(f"{key}/{code}")


def written(folder: str) -> float | None:
    """When the checkpoint in a work folder was last written; None if there is none, or it is not seen from here."""
    with suppress(OSError):
        return RemoteFolder(folder, patience=0.0).modified(CHECKPOINT)
    return None
