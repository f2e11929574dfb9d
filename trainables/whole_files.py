"""Writes files as a whole: under another name, then to the disk, then renamed. Some end with their own digest."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from trainables.errors import LocusError

SEAL = b',\n "digest": "%s"\n}'
"""How a sealed file ends: with the SHA-256 of the bytes before."""


def sealed(plain: Mapping[str, Any]) -> bytes:
    """Returns plain values as JSON, with a digest at the end, so that a byte that changes later is seen."""
    content = json.dumps(plain, indent=1).encode().removesuffix(b"\n}")
    return content + SEAL % hashlib.sha256(content).hexdigest().encode()


def unsealed(whole: bytes) -> bytes | None:
    """Returns the JSON of sealed values, without the digest; None if a byte was changed since."""
    content = whole[: -len(SEAL % (64 * b"0"))]
    return content + b"\n}" if whole == content + SEAL % hashlib.sha256(content).hexdigest().encode() else None


def require_writable(folder: Path, do: str = "") -> None:
    """Refuses a folder that can only be read, or cannot be made where it is not there. `do`: what to do then.

    Raises: LocusError.
    """
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise LocusError(f"{folder} must be a folder that can be written, got one that can only be read{do}")


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file so that a crash leaves the whole file or none. Cost: 3-7 ms."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        aside.write_bytes(content if isinstance(content, bytes) else content.encode())
        rename_durably(aside, path)
    except OSError:  # a full disk
        aside.unlink(missing_ok=True)
        raise


def put_aside(path: Path) -> Path:
    """Renames a damaged file, so that its name ends with `.damaged`, or `.damaged2` and so on; the new path."""
    names = (path.with_name(f"{path.name}.damaged{number if number > 1 else ''}") for number in count(1))
    aside = next(name for name in names if not name.exists())
    rename_durably(path, aside)
    return aside


def rename_durably(source: Path, target: Path) -> None:
    """Renames a finished file to its place: first its bytes are on the disk, then its name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _to_disk(source)
    os.replace(source, target)
    _to_disk(target.parent)


def _to_disk(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
