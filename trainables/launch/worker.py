"""Trains one job under Ray: the only door to Ray Train.

Workers 0: `work` trains in the calling process, in Ray Train's local mode. `report` gets one plain dictionary an epoch
and does not return when the run must end. Workers n: a `Group` is Ray Train's worker group with DDP (gloo on CPUs, NCCL
on GPUs); its messages are read one after another. In both, a failure is a `WorkError` with one sentence.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
import ray.train
from ray._raylet import PlacementGroupID
from ray.train.torch import TorchTrainer, get_device
from ray.util import get_current_placement_group, remove_placement_group
from ray.util.placement_group import PlacementGroup

from trainables.launch.bridge import Bridge
from trainables.launch.errors import failure, group_failure
from trainables.launch.host import host
from trainables.launch.imported import imported_code
from trainables.launch.job import Job, enter
from trainables.launch.work_files import is_uri, local_files
from trainables.recipe import Run
from trainables.recipe.outcome import Diverged, Measurement
from trainables.remote_files import RemoteFolder
from trainables.spec import SpecError

if TYPE_CHECKING:
    from torch import nn

    from trainables.training.distributed import DataParallel

Report = Callable[[dict[str, Any]], bool]
"""Passes on a message; False if the training must end."""
Said = Measurement | Diverged
Say = Callable[[Said, Job], bool]
"""Passes on what a training says, with the job as it is trained; False if the training must end."""

MORE_PARTS = "the GPU's memory did not hold a batch: it is computed in {} times as many parts"
BEGAN_AGAIN = "the checkpoint was damaged and is set aside (checkpoint.damaged): the run began again"
HELD = "resources.txt"
"""The file in a job's folder that names what its workers hold on the cluster: Ray's placement group."""
START_TRIES = 10
"""How many times, a minute each, a group waits for the resources of its workers before its run fails."""


def work(job: Job, report: Report) -> None:
    """Trains a job in this process, reporting epoch by epoch, as long as `report` returns True. Raises: WorkError."""

    def say(said: Said, job: Job) -> bool:
        return report(message(job.run, said, job))

    def loop() -> None:
        _train(job, job.device, _team(job), say)

    with without_launcher():
        TorchTrainer(loop, scaling_config=ray.train.ScalingConfig(num_workers=0)).fit()


LAUNCHER = (
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "NODE_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
"""What torchrun and Slurm scripts set for the processes of a group; Ray's local mode joins the group that they name."""


@contextmanager
def without_launcher() -> Iterator[None]:
    """Removes the variables of a launcher from the environment, and restores them.

    Otherwise a run in this process would wait for workers that never come.
    """
    before = {name: os.environ.pop(name) for name in LAUNCHER if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)


class Group:
    """The workers that train one job together. Call `next` until it returns None, and `close` at any time.

    Ray Train's `fit` waits in another thread; the messages of rank 0 come over a `Bridge`. After `close` nothing is
    left: all ranks end after their current epoch, rank 0 writes its checkpoint, and their resources are free again.
    """

    def __init__(self, job: Job) -> None:
        self._bridge = ray.remote(num_cpus=0)(Bridge).remote()
        self._error: Exception | None = None
        self._answered = True
        self._fit = threading.Thread(target=self._train, args=(job,), name="fit", daemon=True)
        self._fit.start()

    def next(self) -> dict[str, Any] | None:
        """Lets the group go on, and waits for its next message; None when the run has ended. Raises: WorkError."""
        if not self._answered:
            ray.get(self._bridge.go_on.remote())
        said: dict[str, Any] | None = ray.get(self._bridge.receive.remote())
        self._answered = said is None
        if said is None:
            self._fit.join()
        if self._error is not None:
            raise group_failure(self._error) from None
        return said

    def close(self) -> None:
        """Ends the run after its current epoch, and waits until its workers have ended."""
        if self._fit.is_alive():
            ray.get(self._bridge.end.remote())
        self._fit.join()
        ray.kill(self._bridge)

    def _train(self, job: Job) -> None:
        try:
            _trainer(job, self._bridge).fit()
        except Exception as error:  # `next` raises it in the other thread
            self._error = error
        ray.get(self._bridge.close.remote())


def free(job: Job) -> None:
    """Ends what is left of a job's workers, and frees what they hold, once the process that asked for them is dead.

    Ray Train does so itself, but not where one of the workers stands still: the next group would wait for ever.
    """
    folder = RemoteFolder(job.folder, patience=0.0)
    with suppress(OSError):  # a storage that is away
        if (held := folder.read(HELD)) is not None:
            remove_placement_group(PlacementGroup(PlacementGroupID(bytes.fromhex(held.decode()))))
            folder.remove(HELD)


def _trainer(job: Job, bridge: Any) -> TorchTrainer:
    """Ray Train's own retries are off, because the driver counts the attempts."""
    cuda = job.device.startswith("cuda")
    failures = ray.train.FailureConfig(max_failures=0, controller_failure_limit=START_TRIES, max_preemption_failures=0)
    path, system = RemoteFolder(job.folder).arrow() if is_uri(job.folder) else (job.folder, None)
    return TorchTrainer(
        lambda: _member(job, bridge),
        scaling_config=ray.train.ScalingConfig(
            num_workers=job.workers,
            use_gpu=cuda,
            resources_per_worker={"CPU": job.threads}
            | ({"GPU": 1} if cuda else {})
            | ({"memory": job.worker_bytes} if job.worker_bytes else {}),
        ),
        run_config=ray.train.RunConfig(
            name="group", storage_path=path, storage_filesystem=system, failure_config=failures
        ),
    )


def _member(job: Job, bridge: Any) -> None:
    """One worker's part. Rank 0 reports for all workers, and all receive the answer: to go on or to end."""
    imported_code()
    import torch

    enter(job.cwd)
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    if rank == 0:
        with suppress(OSError):  # a folder that this node does not see
            RemoteFolder(job.folder, patience=0.0).write(HELD, get_current_placement_group().id.hex().encode())
    device = str(get_device()) if job.device.startswith("cuda") else job.device

    def say(said: Said, job: Job) -> bool:
        on = rank > 0 or ray.get(bridge.send.remote(message(job.run, said, job)))
        verdict = torch.tensor(int(on), device=device)
        if size > 1:
            torch.distributed.broadcast(verdict, src=0)
        return bool(verdict)

    _train(job, device, _team(job, rank, size), say)


def _team(job: Job, rank: int = 0, size: int = 1) -> DataParallel:
    """One of a job's workers: this process, and what wraps its objective: torch.compile, and DDP around it."""
    from trainables.training.distributed import DataParallel

    def wrap(module: nn.Module) -> nn.Module:
        if job.compile:
            from trainables.training.optional.compiled import compiled

            module = compiled(module)
        if size == 1:
            return module
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(module, broadcast_buffers=False)  # batch norms synchronize themselves

    return DataParallel(rank, size, wrap)


def _train(job: Job, device: str, team: DataParallel, say: Say) -> None:
    """Trains as long as `say` returns True; once more, in more parts, where the memory of a GPU is too small."""
    from trainables.training.runtime import release_memory

    try:
        imported_code().load(job.code)
        with local_files(job) as (local, sender):

            def send_and_say(said: Said, local: Job) -> bool:
                if sender is not None and _is_last(said, local):
                    sender.last()
                return say(said, local)

            if not _fits(local, device, team, send_and_say):
                _train_in_more_parts(local, device, team, send_and_say)
    except Exception as error:
        raise failure(error) from error
    finally:
        release_memory()


def _fits(job: Job, device: str, team: DataParallel, say: Say) -> bool:
    """Trains a job; False if the memory of the GPU ran out. The loop is always closed: it writes its checkpoint."""
    from torch import OutOfMemoryError

    from trainables.training.loop import train
    from trainables.training.runtime import runtime

    parents = {use: Path(file) for use, file in job.parents.items()}
    epochs = train(
        job.run,
        Path(job.folder),
        device,
        parents=parents,
        team=team,
        data=None if job.data is None else Path(job.data),
        loader_workers=job.loader_workers,
    )
    try:
        with runtime(job.threads, job.run.recipe.optimizer.precision), closing(epochs):
            for said in epochs:
                if not say(said, job):
                    return True
    except OutOfMemoryError:
        return False
    return True


def _train_in_more_parts(job: Job, device: str, team: DataParallel, say: Say) -> None:
    """Trains from the last checkpoint, or from the start, with batches in twice as many parts.

    Raises: GpuMemoryError with advice where that cannot be, or where it needs too much memory as well.
    """
    from trainables.training.optional.out_of_memory import FACTOR, check_parts, free_memory, too_large

    recipe = job.run.recipe
    check_parts(recipe, team.world_size, device)
    free_memory()
    try:
        fits = _fits(job.model_copy(update={"more_parts": FACTOR}), device, replace(team, more_parts=FACTOR), say)
    except SpecError:  # of `check_accumulate`: a user's own encoding has a batch norm
        raise too_large(recipe, 1, device, "a batch norm that learns must see a batch as a whole") from None
    if not fits:
        raise too_large(recipe, FACTOR, device)


def message(run: Run, said: Said, job: Job) -> dict[str, Any]:
    """What a worker reports of an epoch; where the run ends, with the code that trained it and the environment.

    Plain values only: Tune flattens deeper ones.
    """
    last = _is_last(said, job)
    return {
        "epoch": said.epoch,
        "kind": "diverged" if isinstance(said, Diverged) else "measured",
        "result": said.model_dump_json(),
        "note": note(job),
        "code": imported_code().code(job.code).digest if last else "",
        "environment": json.dumps(environment(job) if last else {}),
    }


def _is_last(said: Said, job: Job) -> bool:
    return isinstance(said, Diverged) or said.epoch == job.run.recipe.optimizer.epochs


def note(job: Job) -> str:
    """What a user should know of how a job is trained; empty if all is as planned."""
    more_parts = MORE_PARTS.format(job.more_parts) if job.more_parts > 1 else ""
    again = BEGAN_AGAIN if (Path(job.folder) / "checkpoint.damaged").exists() else ""
    return "; ".join(filter(None, (again, more_parts)))


def environment(job: Job) -> dict[str, Any]:
    """Where and how a run trained, called while it trains: recorded, shown where it is mixed, no part of a key."""
    from trainables.training.checkpoint import recorded_sources
    from trainables.training.runtime import environment as environment_of

    return {
        **environment_of(job.device),
        **host(),
        "workers": job.workers,
        "accumulate": job.run.recipe.optimizer.accumulate * job.more_parts,
        **compilation(job),
        "commit": os.environ.get("LOCUS_COMMIT", ""),
        **recorded_sources(Path(job.folder)),
    }


def compilation(job: Job) -> dict[str, Any]:
    """Whether a job is compiled, and in how many graphs: for a compiled run's numbers differ in the last digits."""
    if not job.compile:
        return {"compile": False}
    from trainables.training.optional.compiled import graphs

    return {"compile": True, "graphs": graphs()}
