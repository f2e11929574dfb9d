"""How runs share the machine: how many train together, with how many threads, workers and devices. Pure.

A placement is never part of a recipe or a key: it changes the speed of a study, not its question. The default is one
thread a run, because two processes of one thread train faster than one process of two.
"""

from __future__ import annotations

from trainables.spec import Spec, SpecError

FILLED = 0.8
"""The share of a GPU's memory that runs may fill by prediction."""
CONTEXT_GIB = 0.5
"""What CUDA itself holds of a GPU's memory for each process."""


class Machine(Spec):
    """The CPU cores and GPUs of a machine or a cluster, and the memory of its smallest GPU where that is known."""

    cores: int
    gpus: int = 0
    gpu_gib: float | None = None


class Placement(Spec):
    """How many runs train together, and with what.

    `workers` 0: a run trains in Tune's own process; n: in a group of n workers. `loader_workers`: processes of a run
    that decode images which are streamed. `compile`: a training step is compiled by torch. `runs_per_gpu`: how many
    runs share a GPU. `gpu_gib`: the memory of a GPU, where it is known.
    """

    max_concurrent: int
    threads: int = 1
    workers: int = 0
    device: str = "cpu"
    loader_workers: int = 0
    compile: bool = False
    runs_per_gpu: int = 1
    gpu_gib: float | None = None

    @property
    def cores(self) -> int:
        """The cores of one run."""
        return self.threads * max(self.workers, 1)

    def __str__(self) -> str:
        group = f", {self.workers} workers a run" if self.workers else ""
        runs, threads = _count(self.max_concurrent, "concurrent run"), _count(self.threads, "thread")
        shared = f" ({self.runs_per_gpu} runs a GPU)" if self.runs_per_gpu > 1 else ""
        compiled = ", compiled" if self.compile else ""
        return f"{runs}, {threads} each{group}, {self.device}{shared}{compiled}"


def place(
    machine: Machine,
    *,
    max_concurrent: int | None = None,
    threads: int = 1,
    workers: int = 0,
    loader_workers: int | None = None,
    runs_per_gpu: int = 1,
) -> Placement:
    """The placement of a study on a machine. Concurrent runs x threads x workers never exceed the cores.

    By default a run on GPUs has as many loader workers as cores are left for it, a run on CPUs none: it would share its
    cores with them.
    Raises: SpecError for what does not fit.
    """
    counts = (("max-concurrent", max_concurrent, 1), ("threads", threads, 1), ("workers", workers, 0))
    for name, value, least in (*counts, ("loader-workers", loader_workers, 0), ("runs-per-gpu", runs_per_gpu, 1)):
        if value is not None and value < least:
            raise SpecError(f"{name} must be {least} or more, got {value}")
    group = max(workers, 1)
    each = threads * group
    if each > machine.cores:
        raise SpecError(f"a run of {group} x {threads} threads must fit {_count(machine.cores, 'core')}, got {each}")
    if machine.gpus and group > machine.gpus:
        raise SpecError(f"workers must be at most {machine.gpus}, one a GPU, got {workers}")
    if runs_per_gpu > 1 and (workers or not machine.gpus):
        where = "with workers" if workers else "where there is no GPU"
        raise SpecError(f"runs-per-gpu must be 1 {where}, got {runs_per_gpu}")
    most = machine.gpus * runs_per_gpu // group if machine.gpus else machine.cores // each
    most = min(most, machine.cores // each)
    if max_concurrent is not None and max_concurrent > most:
        cores = _count(machine.cores, "core")
        raise SpecError(f"max-concurrent must be at most {most} with {cores} and {each} a run, got {max_concurrent}")
    runs = max_concurrent or most
    if loader_workers is None:
        loader_workers = max(machine.cores // (runs * group) - threads, 0) if machine.gpus else 0
    return Placement(
        max_concurrent=runs,
        threads=threads,
        workers=workers,
        device="cuda" if machine.gpus else "cpu",
        loader_workers=loader_workers,
        runs_per_gpu=runs_per_gpu,
        gpu_gib=machine.gpu_gib,
    )


def runs_by_memory(gpu_gib: float, run_gib: float) -> int:
    """How many runs a GPU holds by their predicted memory: one at least, because a prediction may be too high."""
    return max(1, int(FILLED * gpu_gib / (run_gib + CONTEXT_GIB)))


def runs_by_cores(machine: Machine, threads: int) -> int:
    """How many runs of so many threads the cores have room for, a GPU."""
    return max(1, machine.cores // threads // machine.gpus)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
