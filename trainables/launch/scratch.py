"""A temporary folder of a process. One that a killed process left behind is removed by the next process that needs one.

A process locks a file in its folder while it lives, so a folder without a lock belongs to nobody.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = "lock"
BEGINS_S = 60.0
"""How old a folder must be before a missing lock tells that its process is dead. Units: seconds."""


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """An empty folder while the block lasts. `prefix`: how the names of all folders of this use begin."""
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError, Timeout):  # somebody else's, or in use
            if time.time() - left.stat().st_mtime > BEGINS_S:
                with FileLock(left / LOCK, timeout=0):
                    shutil.rmtree(left)
    with (
        tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder,
        FileLock(Path(folder) / LOCK),
    ):
        inside = Path(folder) / "files"
        inside.mkdir()
        yield inside
