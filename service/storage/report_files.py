"""The files that a report was written with, and whether each is still as it was written."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from service.storage import plain_json

WRITTEN = "files.json"
"""Beside the page: the names of the files that were written with it, each with the SHA-256 of its content.

It names itself while a page is being written.
"""


def content_digest(content: str | bytes) -> str:
    """Returns what a file's content is known by."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def written(folder: Path) -> dict[str, Any]:
    """Returns what an earlier page wrote, by name. A file that a user has changed since is not ours any more."""
    try:
        known = plain_json((folder / WRITTEN).read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def as_written(folder: Path) -> dict[str, bool]:
    """Returns whether each file of a report is there as it was written.

    Empty where there is no report, and where one is being written, or its writer was killed.
    """
    if not (folder / WRITTEN).exists():
        return {}
    known = written(folder)
    sound = {name: _is_sound(folder / name, digest) for name, digest in known.items()}
    if WRITTEN in known or known != written(folder):
        return {}
    return sound or {WRITTEN: False}


def _is_sound(path: Path, digest: Any) -> bool:
    try:
        return bool(content_digest(path.read_bytes()) == digest)
    except (OSError, ValueError):
        return False
