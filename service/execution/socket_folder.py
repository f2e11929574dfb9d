"""Where a local Ray keeps its sockets, logs and files: the system allows a socket's path only some 100 letters.

Slurm and macOS give long temporary folders; one with a short name is taken in their place.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from trainables.spec import LocusError

LONGEST = 103 if sys.platform == "darwin" else 107
"""The longest path of a socket. Units: bytes."""
BELOW = Path("session_2026-11-25_08-31-57_648037_4194304") / "sockets" / ("s" * 28)
"""What Ray adds to its folder: the start of the session with the process's number, and a socket's name."""
SHORT = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
"""Folders with short names in which everybody may write."""


def socket_folder() -> Path:
    """The folder of a local Ray: the one that Ray would take if its path is short enough, else one of the user's own.

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
    """Ray's own choice (`ray._common.utils.get_default_ray_temp_dir`), from the root on."""
    tmpdir = os.environ.get("TMPDIR", "/tmp") if sys.platform == "linux" else "/tmp"
    return Path(os.path.abspath(os.environ.get("RAY_TMPDIR", tmpdir) or "/tmp")) / "ray"


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / BELOW)) <= LONGEST


def _writable(folder: Path) -> bool:
    """Whether a folder can be written, or made."""
    return os.access(folder if folder.exists() else folder.parent, os.W_OK | os.X_OK)


def _is_own(folder: Path) -> bool:
    """Makes a folder that nobody else can use; whether it is there now and this user's."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    return folder.is_dir() and not folder.is_symlink() and found.st_uid == os.getuid() and not found.st_mode & 0o022
