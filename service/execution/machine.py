"""What runs may use: the cores and GPUs of this machine, or of the cluster at hand."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pynvml

from service.planning.placement import FILLED, Machine, Node, Placement, fused_gib, place, runs_by_cores, runs_by_memory
from service.planning.run_options import RunOptions
from trainables.cgroup import cores, memory_limit
from trainables.spec import SpecError


def placement(options: RunOptions, run_gib: Callable[[], float]) -> Placement:
    """Returns how the runs of a command share the machine.

    `run_gib`: the predicted memory of a run, asked where it matters.

    Raises: SpecError for what does not fit.
    """
    for alone in ("compile", "grad_checkpointing"):
        if getattr(options, alone) and options.fuse > 1:
            raise SpecError(f"fuse must be 1 with --{alone.replace('_', '-')}, got {options.fuse}")
    if options.compile and options.grad_checkpointing:
        raise SpecError("grad-checkpointing must be left out with --compile, which chooses itself what it keeps")
    hardware = machine(options)
    asks = run_gib() if hardware.nodes and not hardware.gpus else None
    return place(
        hardware,
        run_gib=asks,
        max_concurrent=options.max_concurrent,
        threads=options.threads,
        workers=options.most_workers,
        min_workers=options.min_workers,
        loader_workers=options.loader_workers,
        runs_per_gpu=runs_per_gpu(options, hardware, run_gib),
        fuse=options.fuse,
    ).model_copy(update={name: getattr(options, name) for name in ("compile", "grad_checkpointing", "deterministic")})


def runs_per_gpu(options: RunOptions, hardware: Machine, run_gib: Callable[[], float]) -> int:
    """Returns how many runs share a GPU; `auto` is 1 for groups of workers.

    Raises: SpecError if `auto` knows no memory.
    """
    if options.runs_per_gpu != "auto":
        return options.runs_per_gpu
    if options.workers or not hardware.gpus:
        return 1
    if hardware.gpu_gib is None:
        must = "a number where the memory of the GPUs is unknown, as on a cluster"
        raise SpecError(f"runs-per-gpu must be {must}, got 'auto'")
    return min(
        runs_by_cores(hardware, options.threads), runs_by_memory(hardware.gpu_gib, fused_gib(run_gib(), options.fuse))
    )


def machine(options: RunOptions) -> Machine:
    """Returns the machine or cluster that a command may use. Raises: SpecError for a device that is not there."""
    if options.address == "local":
        here = Node(cores=cores(), gib=usable_gib())
        hardware = Machine(cores=here.cores, gpus=gpus(), gpu_gib=gpu_gib(), nodes=(here,))
    else:
        from service.execution import ray_session

        hardware = ray_session.machine(options.address, options.threads)
    if options.device == "cuda" and not hardware.gpus:
        hardware = hardware.model_copy(update={"gpus": _gpus_to_come(hardware, options)})
    return hardware.model_copy(update={"gpus": 0, "gpu_gib": None}) if options.device == "cpu" else hardware


def _gpus_to_come(hardware: Machine, options: RunOptions) -> int:
    """Returns the GPUs that a cluster without one will get for this study. Raises: SpecError if none can come."""
    if not hardware.grows:
        raise SpecError("device must be auto or cpu where there is no GPU, got 'cuda'")
    if options.max_concurrent is None:
        raise SpecError("max-concurrent must be a number where the nodes with GPUs have yet to join, got none")
    shared = options.runs_per_gpu if isinstance(options.runs_per_gpu, int) else 1
    return math.ceil(options.max_concurrent * max(options.most_workers, 1) / (shared * options.fuse))


def usable_gib() -> float:
    """Returns the memory that runs may fill: most of the machine's, or of the container's. Units: GiB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return FILLED * min(total, memory_limit() or total) / 2**30


def gpus() -> int:
    """Returns the GPUs that CUDA would use here, counted by NVIDIA's driver without torch."""
    try:
        with _driver() as total:
            return len(visible_gpus(total, os.environ.get("CUDA_VISIBLE_DEVICES")))
    except pynvml.NVMLError:  # no driver
        return 0


def gpu_gib() -> float | None:
    """Returns the memory of the smallest GPU that CUDA would use here; None if the driver does not say. Units: GiB."""
    try:
        with _driver() as total:
            handles = [_handle(name) for name in visible_gpus(total, os.environ.get("CUDA_VISIBLE_DEVICES"))]
            return min((pynvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30 for handle in handles), default=None)
    except pynvml.NVMLError:  # such as for a part of a GPU, or an abbreviated UUID
        return None


@contextmanager
def _driver() -> Iterator[int]:
    """NVIDIA's driver, and how many GPUs it has. Raises: NVMLError if there is none."""
    pynvml.nvmlInit()
    try:
        yield pynvml.nvmlDeviceGetCount()
    finally:
        pynvml.nvmlShutdown()


def _handle(name: str) -> Any:
    """Returns NVML's handle of a GPU, by its number or its UUID."""
    return pynvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else pynvml.nvmlDeviceGetHandleByUUID(name)


def visible_gpus(total: int, names: str | None) -> list[str]:
    """Returns the GPUs that CUDA_VISIBLE_DEVICES names; CUDA ignores an invalid name, such as -1, and all after it."""
    if names is None:
        return [str(number) for number in range(total)]
    visible: list[str] = []
    for name in (name.strip() for name in names.split(",")):
        number = name.isdigit() and int(name) < total
        if not number and not (total and name.startswith(("GPU-", "MIG-"))):
            break
        visible.append(name)
    return visible
