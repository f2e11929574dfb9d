"""What runs may use: the cores and GPUs of this machine, or of the cluster at hand."""

from __future__ import annotations

import os

import pynvml

from service.planning.placement import Machine, Placement, place
from service.planning.run_options import RunOptions
from trainables.spec import SpecError


def placement(options: RunOptions) -> Placement:
    """How the runs of a command share the machine. Raises: SpecError for what does not fit."""
    return place(
        machine(options),
        max_concurrent=options.max_concurrent,
        threads=options.threads,
        workers=options.workers,
        loader_workers=options.loader_workers,
    ).model_copy(update={"compile": options.compile})


def machine(options: RunOptions) -> Machine:
    """The machine or cluster that a command may use. Raises: SpecError for a device that is not there."""
    if options.address == "local":
        found = Machine(cores=cores(), gpus=gpus())
    else:
        from service.execution import tune as cluster

        found = cluster.machine(options.address, options.threads)
    if options.device == "cuda" and not found.gpus:
        raise SpecError("device must be auto or cpu where there is no GPU, got 'cuda'")
    return found.model_copy(update={"gpus": 0}) if options.device == "cpu" else found


def cores() -> int:
    """The cores that this process may use; all of the machine where the system does not report them, as on macOS."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gpus() -> int:
    """The GPUs that CUDA would use here, counted by NVIDIA's driver without torch."""
    try:
        pynvml.nvmlInit()
        total = pynvml.nvmlDeviceGetCount()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:  # no driver
        return 0
    return visible_gpus(total, os.environ.get("CUDA_VISIBLE_DEVICES"))


def visible_gpus(total: int, names: str | None) -> int:
    """How many GPUs CUDA_VISIBLE_DEVICES names: CUDA ignores an invalid name, such as -1, and all that follow."""
    if names is None:
        return total
    found = 0
    for name in (name.strip() for name in names.split(",")):
        number = name.isdigit() and int(name) < total
        if not number and not (total and name.startswith(("GPU-", "MIG-"))):
            break
        found += 1
    return found
