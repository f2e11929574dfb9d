"""Asks the machine or cluster at hand what runs may use, what arms cost, and where Ray may put its sockets."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pynvml

from service.planning.placement import FILLED, Machine, Node, Placement, fused_gib, place, runs_by_cores, runs_by_memory
from service.planning.run_options import RunOptions
from service.storage.facts import ArmCost, Costed
from service.storage.history import History
from trainables.cgroup import cores, memory_limit
from trainables.spec import LocusError, SpecError


def placement(options: RunOptions, run_gib: Callable[[], float]) -> Placement:
    """Returns how the runs of a command share the machine.

    `run_gib` returns the predicted memory of a run in GiB. It is called only where that number matters.

    Raises: SpecError for options that do not fit each other or the machine.
    """
    if options.grad_checkpointing and options.fuse > 1:
        raise SpecError(f"fuse must be 1 with --grad-checkpointing, got {options.fuse}")
    if options.compile and options.grad_checkpointing:
        raise SpecError("grad-checkpointing must be left out with --compile, which chooses itself what it keeps")
    hardware = machine(options)
    runs_per_gpu = 1 if options.runs_per_gpu == "auto" else options.runs_per_gpu
    if options.runs_per_gpu == "auto" and hardware.gpus and not options.workers:
        if hardware.gpu_gib is None:
            must = "a number where the memory of the GPUs is unknown, as on a cluster"
            raise SpecError(f"runs-per-gpu must be {must}, got 'auto'")
        by_memory = runs_by_memory(hardware.gpu_gib, fused_gib(run_gib(), options.fuse))
        runs_per_gpu = min(runs_by_cores(hardware, options.threads), by_memory)
    return place(
        hardware,
        run_gib=run_gib() if hardware.nodes and not hardware.gpus else None,
        max_concurrent=options.max_concurrent,
        threads=options.threads,
        workers=options.most_workers,
        min_workers=options.min_workers,
        loader_workers=options.loader_workers,
        runs_per_gpu=runs_per_gpu,
        fuse=options.fuse,
    ).model_copy(update={name: getattr(options, name) for name in ("compile", "grad_checkpointing", "deterministic")})


def machine(options: RunOptions) -> Machine:
    """Returns the machine or cluster that a command may use. Raises: SpecError for a device that is not there."""
    if options.address == "local":
        node = Node(cores=cores(), gib=usable_gib())
        hardware = Machine(cores=node.cores, gpus=gpus(), gpu_gib=gpu_gib(), nodes=(node,))
    else:
        from service.execution import ray_session

        hardware = ray_session.machine(options.address, options.threads)
    if options.device == "cuda" and not hardware.gpus:  # a cluster may get GPUs for this study
        if not hardware.grows:
            raise SpecError("device must be auto or cpu where there is no GPU, got 'cuda'")
        if options.max_concurrent is None:
            raise SpecError("max-concurrent must be a number where the nodes with GPUs have yet to join, got none")
        runs_per_gpu = options.runs_per_gpu if isinstance(options.runs_per_gpu, int) else 1
        gpus_to_come = options.max_concurrent * max(options.most_workers, 1) / (runs_per_gpu * options.fuse)
        hardware = hardware.model_copy(update={"gpus": math.ceil(gpus_to_come)})
    return hardware.model_copy(update={"gpus": 0, "gpu_gib": None}) if options.device == "cpu" else hardware


def usable_gib() -> float:
    """Returns the memory that runs may fill: the share `FILLED` of the machine's or the container's. Units: GiB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return FILLED * min(total, memory_limit() or total) / 2**30


def gpus() -> int:
    """Returns the number of GPUs that CUDA would use here. NVIDIA's driver counts them, without torch."""
    try:
        with _visible() as names:
            return len(names)
    except pynvml.NVMLError:  # no driver
        return 0


def gpu_gib() -> float | None:
    """Returns the memory of the smallest GPU that CUDA would use here; None if the driver does not say. Units: GiB."""
    try:
        with _visible() as names:
            by_number, by_uuid = pynvml.nvmlDeviceGetHandleByIndex, pynvml.nvmlDeviceGetHandleByUUID
            handles = [by_number(int(name)) if name.isdigit() else by_uuid(name) for name in names]
            return min((pynvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30 for handle in handles), default=None)
    except pynvml.NVMLError:  # such as for a part of a GPU, or an abbreviated UUID
        return None


@contextmanager
def _visible() -> Iterator[list[str]]:
    """Yields the names of the GPUs that CUDA would use, with NVIDIA's driver open. Raises: NVMLError without one."""
    pynvml.nvmlInit()
    try:
        yield visible_gpus(pynvml.nvmlDeviceGetCount(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    finally:
        pynvml.nvmlShutdown()


def visible_gpus(total: int, names: str | None) -> list[str]:
    """Returns the names of the GPUs that CUDA would use, of `total` in the machine.

    `names` is the value of CUDA_VISIBLE_DEVICES. CUDA ignores an invalid name, such as -1, and all names after it.
    """
    if names is None:
        return [str(number) for number in range(total)]
    visible: list[str] = []
    for name in (name.strip() for name in names.split(",")):
        number = name.isdigit() and int(name) < total
        if not number and not (total and name.startswith(("GPU-", "MIG-"))):
            break
        visible.append(name)
    return visible


def measure_costs(history: History, placement: Placement, data: Path) -> Costed | None:
    """Measures what each arm of a race costs on this machine, in as many processes as runs will train at once.

    It returns None if nothing is to be measured: there is no race, no new arm, or runs train in groups of workers.
    Raises: LocusError with the last line of a process that fails. Cost: 4 s an arm.
    """
    plan = history.edition.study.plan
    arms = {arm.name: arm.recipe for arm in history.edition.arms()} if plan.race else {}
    if arms.keys() <= history.costs.arms.keys() or placement.workers:
        return None
    order = {"recipes": {name: recipe.plain() for name, recipe in arms.items()}, "data": str(data), "turns": 10}
    content = json.dumps(order | {"device": placement.device, "threads": placement.threads}).encode()
    environment = {**os.environ, "OMP_NUM_THREADS": str(placement.threads)}
    load = os.getloadavg()[0]

    def measure(_: int) -> dict[str, dict[str, list[float]]]:
        command = [sys.executable, "-m", "trainables.launch.costs"]
        process = subprocess.run(command, input=content, capture_output=True, env=environment, check=False)
        if process.returncode:
            last_line = process.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise LocusError(f"an arm cannot be measured: {last_line}")
        turns: dict[str, dict[str, list[float]]] = json.loads(process.stdout)
        return turns

    count = max(1, min(placement.max_concurrent, cores() // placement.threads))
    with ThreadPoolExecutor(count) as pool:
        processes = list(pool.map(measure, range(count)))
    costs = {
        name: ArmCost(
            **{step: tuple(s for turns in processes for s in turns[name][step]) for step in processes[0][name]}
        )
        for name in arms
    }
    return Costed(arms=costs, load=load, cores=cores())


LONGEST = 103 if sys.platform == "darwin" else 107
"""The longest path of a socket. Units: bytes."""
BELOW = Path("session_2026-11-25_08-31-57_648037_4194304") / "sockets" / ("s" * 28)
"""An example of the path that Ray adds to its folder: when the session began, the process's number, a socket."""
SHORT = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
"""Folders with short names in which everybody may write."""


def socket_folder() -> Path:
    """Returns the folder of a local Ray: the one that Ray would take if its path is short, else one of this user's own.

    A socket's path may have some 100 letters. Slurm and macOS give longer temporary folders.
    Raises: LocusError if no such folder can be written.
    """
    # Ray's own choice, `ray._common.utils.get_default_ray_temp_dir`, from the root on
    tmpdir = os.environ.get("TMPDIR", "/tmp") if sys.platform == "linux" else "/tmp"
    usual = Path(os.path.abspath(os.environ.get("RAY_TMPDIR", tmpdir) or "/tmp")) / "ray"

    most = LONGEST - len(os.fsencode(BELOW)) - len("/ray/")  # bytes of the folder above
    can_be_written = os.access(usual if usual.exists() else usual.parent, os.W_OK | os.X_OK)
    if len(os.fsencode(usual.parent)) <= most and can_be_written:
        return usual
    for base in SHORT:
        folder = base / f"locus-ray-{os.getuid()}"
        if len(os.fsencode(folder)) > most:
            continue
        with suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.lstat()
            is_of_this_user = status.st_uid == os.getuid() and not status.st_mode & 0o022
            if is_of_this_user and folder.is_dir() and not folder.is_symlink():
                return folder / "ray"  # Ray lets everybody write into its own folder
    raise LocusError(
        f"RAY_TMPDIR or TMPDIR must be a folder that can be written, with a path of at most {most} bytes, because the "
        f"sockets of Ray lie below it, got {usual.parent}; {', '.join(map(str, SHORT))} cannot be written either"
    )
