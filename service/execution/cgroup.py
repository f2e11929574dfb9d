"""What a container may use of its machine, as Linux's control groups say (version 2, else 1)."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
UNLIMITED = 2**60
"""Version 1 writes a number near 2^63 where there is no limit. Units: bytes."""


def cpu_quota(root: Path = ROOT) -> float | None:
    """How many cores' time the processes here may use together; None without a limit."""
    quota, _, period = _read(root / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(root / "cpu/cpu.cfs_quota_us"), _read(root / "cpu/cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def memory_limit(root: Path = ROOT) -> int | None:
    """How much memory the processes here may use together; None without a limit. Units: bytes."""
    limit = _read(root / "memory.max") or _read(root / "memory/memory.limit_in_bytes")
    return int(limit) if limit.isdigit() and int(limit) < UNLIMITED else None


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
