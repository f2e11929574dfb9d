"""Keeps what is slow to compute in the user's cache folder: it may be removed at any time, and is computed again.

What nobody has used for `UNUSED_S` is removed when something new is kept beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

UNUSED_S = 90 * 24 * 3600
"""How long a value is kept that nobody uses."""
SEAL = re.compile(rb"[0-9a-f]{64}\n")
"""How each file begins that is kept here."""


def cache_folder() -> Path | None:
    """Returns `locus` in $XDG_CACHE_HOME, else in ~/.cache; None for a user without a folder of their own."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "locus"
    except RuntimeError:
        return None


def kept(name: str, mark: str) -> Any:
    """Returns the plain value that was kept under a name and this mark; None if there is none, or a damaged one.

    `mark`: all that the value follows from, as text.
    """
    folder = cache_folder()
    if folder is None:
        return None
    try:
        seal, _, text = (folder / name).read_text(encoding="utf-8").partition("\n")
    except (OSError, ValueError):
        return None
    if seal != _seal(mark, text):
        return None
    with suppress(OSError):
        os.utime(folder / name)
    return json.loads(text)


def keep(name: str, mark: str, value: Any) -> None:
    """Keeps a plain value under a name, in place of an older one; nothing if the folder cannot be written."""
    folder, text = cache_folder(), json.dumps(value)
    if folder is None:
        return
    path = folder / name
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        number, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with open(number, "w", encoding="utf-8") as file:
            file.write(f"{_seal(mark, text)}\n{text}")
        os.replace(aside, path)
        _remove_unused(path.parent)


def _remove_unused(folder: Path) -> None:
    """Removes values that nobody has used for long. Other files stay, whatever their names."""
    long_ago = time.time() - UNUSED_S
    with os.scandir(folder) as entries:
        old = [
            entry.path for entry in entries if entry.is_file(follow_symlinks=False) and entry.stat().st_mtime < long_ago
        ]
    for path in old:
        with suppress(OSError), open(path, "rb") as file:
            if SEAL.fullmatch(file.read(65)):
                os.unlink(path)


def _seal(mark: str, text: str) -> str:
    return hashlib.sha256(f"{mark}\n{text}".encode()).hexdigest()


def seen(*roots: Path) -> str:
    """Returns a mark for `kept` of the Python files of folders, or of single files, which are not read."""
    marks = []
    for root in roots:
        inside = [f"{folder}/{file}" for folder, _, files in os.walk(root) for file in files if file.endswith(".py")]
        for path in inside or [str(root)]:
            with suppress(OSError):
                status = os.stat(path)
                marks.append(f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ino}")
    return "\n".join(sorted(marks))
