"""Removes what lies in a folder of a home, by its name there, and nothing else.

The names come from journals, which may be a stranger's: a name that leads anywhere else is refused. A link (to a larger
disk, for example) is unlinked; what it leads to stays.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from trainables.errors import LocusError


def remove(within: Path, *names: str) -> None:
    """Removes what lies in a folder under a name; two names lead into a folder in it. Nothing if there is none.

    Raises: LocusError for a name that leads out of the folder.
    """
    path = _place(within, names)
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def check_removable(within: Path, name: str) -> None:
    """Looks whether `remove` can remove what lies in a folder under a name. Raises: LocusError if it cannot."""
    path, folders = _place(within, (name,)), [within]
    if path.is_dir() and not path.is_symlink():
        if path.is_mount():
            raise LocusError(f"{path} must be a folder or a link to be removed, got a mounted disk; unmount it first")
        folders += [Path(folder) for folder, _, _ in os.walk(path)]
    for folder in folders:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise LocusError(f"{folder} must be a folder that can be written to remove {path}; nothing was removed")


def _place(within: Path, names: tuple[str, ...]) -> Path:
    """The path of names in a folder; of a link on the way, the link itself."""
    path = within
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise LocusError(f"what is removed must lie directly in {path}, got the name {name!r}")
        path /= name
        if path.is_symlink():
            break
    return path
