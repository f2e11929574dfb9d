"""Settings of the process that a run's numbers depend on: threads, precision, the order of sums on a GPU."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch
from timm.layers import config as layers

CUDA: Any = torch.backends.cuda
CUDNN: Any = torch.backends.cudnn
MATMUL = CUDA.matmul
MKLDNN: Any = torch.backends.mkldnn
CLEAR_REFS, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""The precisions that autocast computes in; a model's weights are float32 in both."""
FLAGS: tuple[tuple[Any, str, Any], ...] = (
    (layers, "_USE_FUSED_ATTN", 1),
    (layers, "_EXPORTABLE", False),
    (layers, "_SCRIPTABLE", False),
    (layers, "_NO_JIT", False),
    (MKLDNN, "enabled", True),
    (MKLDNN, "deterministic", False),
    (MKLDNN.matmul, "fp32_precision", "ieee"),
    (MKLDNN.conv, "fp32_precision", "ieee"),
    (MKLDNN.rnn, "fp32_precision", "ieee"),
    (CUDNN, "enabled", True),
    (CUDNN, "benchmark", False),
    (CUDNN, "deterministic", False),
    (MATMUL, "allow_fp16_reduced_precision_reduction", True),
    (MATMUL, "allow_bf16_reduced_precision_reduction", True),
    (MATMUL, "allow_fp16_accumulation", False),
)
USUAL: tuple[tuple[Callable[[], Any], Callable[[Any], object], Any], ...] = (
    (torch.get_default_dtype, torch.set_default_dtype, torch.float32),
    (torch.is_grad_enabled, torch.set_grad_enabled, True),
    (CUDA.flash_sdp_enabled, CUDA.enable_flash_sdp, True),
    (CUDA.mem_efficient_sdp_enabled, CUDA.enable_mem_efficient_sdp, True),
    (CUDA.math_sdp_enabled, CUDA.enable_math_sdp, True),
    (CUDA.cudnn_sdp_enabled, CUDA.enable_cudnn_sdp, True),
    *((partial(getattr, owner, name), partial(setattr, owner, name), value) for owner, name, value in FLAGS),
)
"""How each switch of torch and timm that changes numbers is read and set, and its value in every run: a user's file may
have set it in this process, and other runs train here, too."""


@contextmanager
def runtime(threads: int, precision: str, deterministic: bool = False) -> Iterator[None]:
    """Sets a run's threads, precision flags and all other switches of the process, and restores what was there.

    torch's own defaults mix two precisions on a GPU: TF32 in convolutions, float32 in matrix products.
    `deterministic`: a GPU adds up in one order, so that a run repeats bit for bit; some operations are slower.
    Raises: RuntimeError, while a run computes, where torch has no such version of an operation.
    """
    before, switches = settings(), [(switch, read()) for read, switch, _ in USUAL]
    flag = "tf32" if precision == "tf32" else "ieee"  # which is float32 in full
    _set(threads, flag, flag, deterministic)
    for _, switch, value in USUAL:
        switch(value)
    try:
        yield
    finally:
        _set(*before.values())
        for switch, value in switches:
            switch(value)


def _set(threads: int, matmul: str, conv: str, deterministic: bool) -> None:
    torch.set_num_threads(threads)
    # torch's older flags come first: where they say something else than the newer ones, to read them is an error
    MATMUL.allow_tf32, CUDNN.allow_tf32 = matmul == "tf32", conv == "tf32"
    MATMUL.fp32_precision = matmul
    CUDNN.conv.fp32_precision = CUDNN.rnn.fp32_precision = conv
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it at a process's first product
    torch.use_deterministic_algorithms(deterministic)


def autocast(device: str, precision: str) -> torch.autocast:
    """Returns what a model computes under, on a type of device: it does nothing where a precision is no half."""
    half = HALVES.get(precision)
    return torch.autocast(device, dtype=half or torch.bfloat16, enabled=half is not None)


def settings() -> dict[str, Any]:
    """Returns the settings as they are now."""
    return {
        "threads": torch.get_num_threads(),
        "matmul_fp32_precision": MATMUL.fp32_precision,
        "conv_fp32_precision": CUDNN.conv.fp32_precision,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
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
            CLEAR_REFS.write_text("5", encoding="utf-8")


def peak_gib(device: torch.device) -> float:
    """Returns the most memory since `reset_peak`: of the GPU, or of this process with its libraries. Units: GiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    if STATUS.exists():
        lines = dict(line.partition(":")[::2] for line in STATUS.read_text(encoding="utf-8").splitlines())
        if "VmHWM" in lines:
            return int(lines["VmHWM"].split()[0]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def release_memory() -> None:
    """Returns freed memory to the machine, which glibc and torch's CUDA allocator keep: a process would grow."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
