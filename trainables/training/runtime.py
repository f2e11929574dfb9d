"""Settings of the process that a run's numbers depend on: threads, and how a GPU computes in float32."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import timm
import torch

CONV: Any = torch.backends.cudnn.conv  # type: ignore[attr-defined]
PRECISIONS = {"tf32": "tf32"}
"""The flag of a recipe's precision, where it is not `ieee`, which is float32 in full."""


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
    """The settings as they are now."""
    return {
        "threads": torch.get_num_threads(),
        "matmul_fp32_precision": torch.backends.cuda.matmul.fp32_precision,
        "conv_fp32_precision": CONV.fp32_precision,
    }


def environment(device: str) -> dict[str, Any]:
    """What a run's numbers may depend on beside its recipe and its code: versions, the machine, the settings now."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "timm": timm.__version__,
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu",
        "machine": platform.machine(),
        **settings(),
    }


def release_memory() -> None:
    """Returns freed memory to the machine, so that a process that trains many runs does not grow.

    glibc and torch's CUDA allocator keep what was freed. With another C library only the latter is emptied.
    """
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
