"""What a run's process knows of its machine and of the frameworks around it: recorded for the report."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from trainables.cgroup import cores

CPU_INFO = Path("/proc/cpuinfo")
FRAMEWORKS = ("ray", "optuna", "mlflow")


def host() -> dict[str, Any]:
    """Returns the CPU, its cores and its memory, and the versions of the frameworks that are installed. Cost: 5 ms.

    Units: `host_memory_gib` of the whole machine; `host_cores` that this process may use.
    """
    machine: dict[str, Any] = {"host_cpu": cpu_model(), "host_cores": cores(), "host_memory_gib": memory_gib()}
    for name in FRAMEWORKS:
        with suppress(metadata.PackageNotFoundError):
            machine[name] = metadata.version(name)
    return {name: value for name, value in machine.items() if value}


def cpu_model() -> str:
    """Returns the name of the CPU: Linux has it in a file; elsewhere what Python knows, which may be nothing."""
    if CPU_INFO.exists():
        lines = CPU_INFO.read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
        if names:
            return names[0]
    return platform.processor()


def memory_gib() -> float:
    """Returns the memory of the machine; 0 if the system does not tell it."""
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return 0.0
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
