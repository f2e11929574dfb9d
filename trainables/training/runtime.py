"""Settings of the process that a run's numbers depend on: threads, and how a GPU computes in float32."""

from __future__ import annotations

import ctypes
import platform
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import timm
import torch

CONV: Any = torch.backends.cudnn.conv  # type: ignore[attr-defined]
CLEAR_REFS, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
PRECISIONS = {"tf32": "tf32"}
"""The flag of a recipe's precision, where it is not `ieee`, which is float32 in full."""
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""The precisions that autocast computes in; a model's weights are float32 in both."""


@contextmanager
def runtime(threads: int, precision: str) -> Iterator[None]:
    """Sets a run's threads and precision flags, and restores what was there.

    torch's own defaults mix two precisions on a GPU: TF32 in convolutions, float32 in matrix products.
    """
    before = settings()
    flag = PRECISIONS.get(precision, "ieee")
    _set(threads, flag, flag)
    try:
        yield
    finally:
        _set(*before.values())


def _set(threads: int, matmul: str, conv: str) -> None:
    torch.set_num_threads(threads)
    torch.backends.cuda.matmul.fp32_precision = matmul
    CONV.fp32_precision = conv


def settings() -> dict[str, Any]:
    """Returns the settings as they are now."""
    return {
        "threads": torch.get_num_threads(),
        "matmul_fp32_precision": torch.backends.cuda.matmul.fp32_precision,
        "conv_fp32_precision": CONV.fp32_precision,
    }


def environment(device: str) -> dict[str, Any]:
    """Returns what a run's numbers may depend on beside recipe and code: versions, the machine, the settings now."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "timm": timm.__version__,
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu",
        "machine": platform.machine(),
        **settings(),
    }


def reset_peak(device: torch.device) -> None:
    """Forgets the most memory that was used so far, where the system can."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):  # no such file but on Linux, and some containers forbid it
            CLEAR_REFS.write_text("5")


def peak_gib(device: torch.device) -> float:
    """Returns the most memory since `reset_peak`: of the GPU, or of this process with its libraries. Units: GiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    if STATUS.exists():
        lines = dict(line.partition(":")[::2] for line in STATUS.read_text().splitlines())
        if "VmHWM" in lines:
            return int(lines["VmHWM"].split()[0]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def release_memory() -> None:
    """Returns freed memory to the machine, so that a process that trains many runs does not grow.

    glibc and torch's CUDA allocator keep what was freed. With another C library only the latter is emptied.
    """
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
