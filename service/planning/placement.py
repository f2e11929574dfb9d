"""Decides how runs share a machine: how many train together, with how many threads, workers and devices.

Nothing is read or written here. A placement is never part of a recipe or a key: it changes the speed of a study, not
its question. The default is one thread a run, because two processes of one thread train faster than one process of two.
"""

from __future__ import annotations

import math
from typing import Any

from search_spaces.words import plural
from trainables.recipe import Recipe
from trainables.recipe.cost import PROCESS_BYTES, estimate_cost
from trainables.recipe.fusing import can_fuse
from trainables.spec import Spec, SpecError

FILLED = 0.8
"""The share of the memory of a GPU or a machine that runs may fill, by their predicted memory."""
CONTEXT_GIB = 0.5
"""How much of a GPU's memory CUDA itself takes for each process. Units: GiB."""

LOADER_GIB, SHARED_GIB = 0.5, 0.25
"""The memory of a loader worker (measured: 0.42 GiB where it is spawned, for Python, torch and timm), and the shared
memory for all of a process that trains (`trainables.data.streamed_torch.SHARED_BYTES`). Units: GiB."""
SMALL_PARAMETERS = 2_000_000
"""The most parameters of a small model, which `fuse` makes faster: a GPU computes its step before Python can ask for
the next one."""
HOST_GIB = 3.0
"""The memory of the host that a process with a GPU takes for Python, torch and the libraries of CUDA. Units: GiB."""


class Node(Spec):
    """One machine of a cluster: its CPU cores, and the memory that runs may fill there, in GiB."""

    cores: int
    gib: float


class Machine(Spec):
    """The CPU cores and GPUs of a machine or a cluster.

    `gpu_gib` is the memory of the smallest GPU in GiB; None if it is not known. `nodes` are the machines, or empty if
    their memory is not known. `grows` says that more machines may join, as in a cluster.
    """

    cores: int
    gpus: int = 0
    gpu_gib: float | None = None
    nodes: tuple[Node, ...] = ()
    grows: bool = False


class Placement(Spec):
    """How many runs train together, and with which threads, workers, devices and memory.

    With 0 `workers` a run trains in Tune's own process; with n, in a group of n workers, or of at least `min_workers`
    where not all have room. `loader_workers` is how many processes of a run decode images that are streamed. `compile`
    lets torch compile a training step. `grad_checkpointing` keeps only the inputs of each block while a model trains.
    `deterministic` lets a GPU add up in one order. `runs_per_gpu` is how many processes share a GPU. `fuse` is how many
    runs of one shape a process trains as one model. `gpu_gib` is the memory of a GPU; None if it is not known.
    `run_gib` is the memory that each worker of a run asks for on its node; None asks for none. `by_memory` says that
    memory, not cores, decides how many runs train together. `fits` is how many runs have a place on the machine, or on
    a cluster before more machines join it. Units: GiB.
    """

    max_concurrent: int
    threads: int = 1
    workers: int = 0
    min_workers: int | None = None
    device: str = "cpu"
    loader_workers: int = 0
    compile: bool = False
    grad_checkpointing: bool = False
    deterministic: bool = False
    runs_per_gpu: int = 1
    fuse: int = 1
    gpu_gib: float | None = None
    run_gib: float | None = None
    by_memory: bool = False
    fits: int | None = None

    @property
    def run_bytes(self) -> int | None:
        """The memory that each process of a run asks for; None asks for none. Units: bytes."""
        return None if self.run_gib is None else int(self.run_gib * 2**30)

    def of_a_job(self) -> dict[str, Any]:
        """Returns the fields of this placement that a job carries, by the names of `Job`."""
        names = (
            "device", "threads", "workers", "min_workers", "loader_workers", "runs_per_gpu", "compile",
            "grad_checkpointing", "deterministic",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names} | {"worker_bytes": self.run_bytes}

    def __str__(self) -> str:
        runs, threads = plural(self.max_concurrent, "concurrent run"), plural(self.threads, "thread")
        waits = self.fits is not None and self.max_concurrent > self.fits
        memory = " (by memory)" if self.by_memory else f" ({self.fits} fit now)" if waits else ""
        fewest = f"{self.min_workers} to " if self.min_workers else ""
        group = f", {fewest}{self.workers} workers a run" if self.workers else ""
        shared = f" ({self.runs_per_gpu} runs a GPU)" if self.runs_per_gpu > 1 else ""
        compiled = f", {self.fuse} as one model" if self.fuse > 1 else ""
        compiled += ", compiled" if self.compile else ""
        compiled += ", gradient checkpointing" if self.grad_checkpointing else ""
        compiled += ", deterministic" if self.deterministic else ""
        loaders = ""
        if self.loader_workers:
            each, gib = plural(self.loader_workers, "loader worker"), loader_gib(self.loader_workers)
            loaders = f", {each} each where images are streamed (up to {gib:.1f} GiB)"
        return f"{runs}{memory}, {threads} each{group}, {self.device}{shared}{compiled}{loaders}"


def place(
    machine: Machine,
    *,
    max_concurrent: int | None = None,
    threads: int = 1,
    workers: int = 0,
    min_workers: int | None = None,
    loader_workers: int | None = None,
    runs_per_gpu: int = 1,
    run_gib: float | None = None,
    fuse: int = 1,
) -> Placement:
    """Returns the placement of a study on a machine. Concurrent runs x threads x workers never exceed the cores.

    Runs on CPUs that each take `run_gib` by prediction never exceed the memory of any node either. One run is always
    placed, because a prediction may be too high. On a cluster that grows, runs that have no place yet may wait.
    By default a run on GPUs has as many loader workers as it has cores and memory left. A run on CPUs has none: they
    would share its cores. The memory of loader workers that are asked for is added to `run_gib`.
    Raises: SpecError for options that do not fit each other or the machine.
    """
    for name, count, least in (
        ("max-concurrent", max_concurrent, 1), ("threads", threads, 1), ("workers", workers, 0),
        ("loader-workers", loader_workers, 0), ("runs-per-gpu", runs_per_gpu, 1), ("fuse", fuse, 1),
    ):  # fmt: skip
        if count is not None and count < least:
            raise SpecError(f"{name} must be {least} or more, got {count}")
    group = max(workers, 1)
    if min_workers is not None:  # as many as there are places for
        group = max(min_workers, min(group, machine.gpus or machine.cores // threads))
    waits = machine.grows and max_concurrent is not None
    if threads * group > machine.cores and not waits:
        cores = plural(machine.cores, "core")
        raise SpecError(f"a run of {group} x {threads} threads must fit {cores}, got {threads * group}")
    if machine.gpus and group > machine.gpus:
        raise SpecError(f"workers must be at most {machine.gpus}, one a GPU, got {group}")
    if runs_per_gpu > 1 and (workers or not machine.gpus):
        why = "with workers" if workers else "where there is no GPU"
        raise SpecError(f"runs-per-gpu must be 1 {why}, got {runs_per_gpu}")
    if fuse > 1 and workers:
        raise SpecError(f"fuse must be 1 with workers, got {fuse}")
    if run_gib is not None:
        run_gib = fused_gib(run_gib, fuse) + loader_gib(loader_workers or 0)

    most, by_memory, has, asks = _most_runs(machine, threads, group, runs_per_gpu, run_gib)
    most *= fuse
    if max_concurrent is not None and max_concurrent > most and not waits:
        raise SpecError(f"max-concurrent must be at most {most} with {has} and {asks} a run, got {max_concurrent}")
    runs = max_concurrent or most

    if loader_workers is None:
        loader_workers = _loaders(machine, math.ceil(runs / fuse) * group, threads) if machine.gpus else 0
    # A process asks for at most what a node with the cores has, or it would never start.
    largest = max((node.gib for node in machine.nodes if node.cores >= threads), default=None)
    return Placement(
        max_concurrent=runs,
        threads=threads,
        workers=workers,
        min_workers=min_workers,
        device="cuda" if machine.gpus else "cpu",
        loader_workers=loader_workers,
        runs_per_gpu=runs_per_gpu,
        fuse=fuse,
        gpu_gib=machine.gpu_gib,
        run_gib=None if run_gib is None or largest is None else min(run_gib, largest),
        by_memory=max_concurrent is None and by_memory,
        fits=most,
    )


def _most_runs(
    machine: Machine, threads: int, group: int, runs_per_gpu: int, run_gib: float | None
) -> tuple[int, bool, str, str]:
    """Returns how many runs fit a machine, whether memory limits them, and in words what it has and a run takes."""
    each = threads * group
    most = min(machine.gpus * runs_per_gpu // group if machine.gpus else machine.cores, machine.cores // each)
    if run_gib and machine.nodes and not machine.gpus:
        processes = sum(min(node.cores // threads, int(node.gib / run_gib)) for node in machine.nodes)
        if max(1, processes // group) < most:
            gib = sum(node.gib for node in machine.nodes)
            return max(1, processes // group), True, f"{gib:.1f} GiB of memory", f"{run_gib:.1f} GiB"
    return most, False, plural(machine.cores, "core"), str(each)


def _loaders(machine: Machine, processes: int, threads: int) -> int:
    """Returns how many loader workers each process that trains may have, by free cores and memory (one at least)."""
    by_cores = max(machine.cores // processes - threads, 0)
    if not machine.nodes:
        return by_cores
    left = sum(node.gib for node in machine.nodes) / processes - HOST_GIB - SHARED_GIB
    return min(by_cores, max(int(left / LOADER_GIB), 1))


def fused_gib(run_gib: float, fuse: int) -> float:
    """Returns the memory of a process that trains `fuse` runs as one model; its own part counts once. Units: GiB."""
    return run_gib + (fuse - 1) * max(0.0, run_gib - PROCESS_BYTES / 2**30)


def one_of_fused_gib(peak_gib: float, fuse: int) -> float:
    """Returns the memory of one run, from that of a process that trains `fuse` runs as one model. Units: GiB."""
    return (peak_gib + (fuse - 1) * min(peak_gib, PROCESS_BYTES / 2**30)) / fuse


def loader_gib(workers: int) -> float:
    """Returns the memory of the loader workers of a process that trains. Units: GiB."""
    return workers * LOADER_GIB + SHARED_GIB if workers else 0.0


def runs_by_memory(gpu_gib: float, run_gib: float) -> int:
    """Returns how many runs a GPU holds by their predicted memory: at least one, as a prediction may be too high."""
    return max(1, int(FILLED * gpu_gib / (run_gib + CONTEXT_GIB)))


def runs_by_cores(machine: Machine, threads: int) -> int:
    """Returns how many runs of so many threads the cores have room for, for each GPU."""
    return max(1, machine.cores // threads // machine.gpus)


def gpu_advice(recipe: Recipe, placement: Placement) -> tuple[str, ...]:
    """Returns sentences on what would make a study faster on a GPU: another precision, or runs trained as one model."""
    advice: list[str] = []
    if placement.device != "cuda":
        return ()
    if recipe.optimizer.precision == "float32":
        advice.append(
            "float32 in full is the slowest precision of a GPU: large models train faster with "
            "--set optimizer.precision=bfloat16 (float16 on V100 and T4), as another version"
        )
    small = estimate_cost(recipe).parameters <= SMALL_PARAMETERS
    if small and placement.fuse == 1 and not placement.workers and can_fuse(recipe):
        advice.append("so small a model leaves a GPU idle: --fuse 50 trains 50 runs of one shape as one, far faster")
    return tuple(advice)
