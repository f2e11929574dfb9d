"""Writes files as a whole: first under another name, then to the disk, then renamed."""

from __future__ import annotations

import os
import threading
from itertools import count
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file so that a crash leaves the whole file or none. Cost: 3-7 ms."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with aside.open("wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
        file.flush()
        os.fsync(file.fileno())
    rename_durably(aside, path)


def put_aside(path: Path) -> Path:
    """Renames a damaged file, so that its name ends with `.damaged`, or `.damaged2` and so on; the new path."""
    names = (path.with_name(f"{path.name}.damaged{number if number > 1 else ''}") for number in count(1))
    aside = next(name for name in names if not name.exists())
    rename_durably(path, aside)
    return aside


def rename_durably(source: Path, target: Path) -> None:
    """Renames a finished file to its place and makes the rename durable."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
