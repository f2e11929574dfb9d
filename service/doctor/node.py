"""Examines one node of a cluster, in a process there."""

from __future__ import annotations

import platform
import shutil
import socket
import time
from pathlib import Path
from typing import Any

from service.doctor.here import GIB, is_world_writable
from service.execution import machine


def seen_by_node(home: str, mark: str) -> dict[str, Any]:
    """What a node is and sees. `mark`: a file in the home that the driver has just written.

    Units: `time` in seconds since 1970, `free` in GiB; None where the node does not see the home.
    """
    import torch

    folder = Path(home)
    there = folder.is_dir()
    return {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "time": time.time(),
        "shared": (folder / mark).exists(),
        "open": there and is_world_writable(folder),
        "free": shutil.disk_usage(folder).free / GIB if there else None,
        "gpus": machine.gpus(),
        "gpus_of_torch": torch.cuda.device_count(),
    }
