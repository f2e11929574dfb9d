"""The work folders of runs that are not finished: what a worker leaves there, and when it is removed."""

from __future__ import annotations

import shutil
from pathlib import Path

from service.storage.home import StudyFolder

CHECKPOINT = "checkpoint.pt"
WEIGHTS = "weights.pt"


def begin(study: StudyFolder, key: str, code: str, attempt: int) -> Path:
    """The folder of a new attempt, with the checkpoint of the attempt before it, if there is one."""
    folder = study.work(key, code, attempt)
    folder.mkdir(parents=True, exist_ok=True)
    before = study.work(key, code, attempt - 1) / CHECKPOINT
    if before.exists():
        shutil.copyfile(before, folder / CHECKPOINT)
    return folder


def clear(study: StudyFolder, key: str, code: str) -> None:
    """Removes the folders of all attempts of a run by a code."""
    shutil.rmtree(study.work(key, code, 0).parent, ignore_errors=True)
