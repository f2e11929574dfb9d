"""The commit of this checkout, which is recorded with each answer."""

from __future__ import annotations

import subprocess
from pathlib import Path

COMMAND = ("git", "describe", "--always", "--dirty=+", "--exclude=*")


def commit() -> str:
    """The commit of this project, with `+` where files differ from it; empty if it was installed elsewhere."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():  # installed: a checkout above site-packages is another project's
        return ""
    try:
        return subprocess.run(COMMAND, cwd=root, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
