"""What this process may use of its machine: the cores and the memory that Linux, or a container, lets it have."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
UNLIMITED = 2**60
"""Version 1 writes a number near 2^63 where there is no limit. Units: bytes."""


def cores() -> int:
    """Returns the cores that this process may use; all of the machine where the system does not report them."""
    seen = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return seen if quota is None else max(1, min(seen, int(quota)))


def cpu_quota(root: Path = ROOT) -> float | None:
    """Returns how many cores' time the processes here may use together; None without a limit."""
    quota, _, period = _read(root / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(root / "cpu/cpu.cfs_quota_us"), _read(root / "cpu/cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def memory_limit(root: Path = ROOT) -> int | None:
    """Returns how much memory the processes here may use together; None without a limit. Units: bytes."""
    limit = _read(root / "memory.max") or _read(root / "memory/memory.limit_in_bytes")
    return int(limit) if limit.isdigit() and int(limit) < UNLIMITED else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
