"""Trains one job in this process under Ray Train: alone, in its local mode, or as a member of a `group`.

`report` gets one plain dictionary an epoch. A failure is a `WorkError` with one sentence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
import ray.train
from ray.train.torch import TorchTrainer

from trainables.launch.errors import failure
from trainables.launch.job import Job
from trainables.launch.message import is_last, message
from trainables.launch.work_files import local_files
from trainables.recipe.outcome import Diverged, Measurement
from trainables.recipe.revisions import require_code
from trainables.spec import SpecError

if TYPE_CHECKING:
    from trainables.training.distributed import DataParallel

Report = Callable[[dict[str, Any]], bool]
"""Passes on a message; False if the training must end."""
Say = Callable[[Measurement | Diverged, Job], bool]
"""Passes on what a training says, with the job as it is trained; False if the training must end."""


def work(job: Job, report: Report) -> None:
    """Trains a job in this process, reporting epoch by epoch, as long as `report` returns True. Raises: WorkError."""

    def say(epoch: Measurement | Diverged, job: Job) -> bool:
        return report(message(job.run, epoch, job))

    def loop() -> None:
        train_job(job, job.device, member_of(job), say)

    in_ray_train(loop)


def in_ray_train(loop: Callable[[], None]) -> None:
    """Calls a function in this process as Ray Train's local mode does."""
    with without_launcher():
        TorchTrainer(loop, scaling_config=ray.train.ScalingConfig(num_workers=0)).fit()


SHARED = 0.95
"""The part of a GPU's memory that the tensors of runs fill that share it; CUDA itself takes the rest."""

LAUNCHER = (
    "RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip
"""What torchrun and Slurm scripts set for the processes of a group; Ray's local mode joins the group that they name."""


@contextmanager
def without_launcher() -> Iterator[None]:
    """Takes a launcher's variables away for a while: a run in this process would wait for workers that never come."""
    before = {name: os.environ.pop(name) for name in LAUNCHER if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)


def member_of(job: Job, rank: int = 0, size: int = 1) -> DataParallel:
    """Returns one of a job's workers: this process, and what wraps its objective, or the joint loss of a pack."""
    from trainables.training.distributed import DataParallel

    def wrap(module: Any) -> Any:
        if job.compile:
            from trainables.training.optional.compiled import compiled

            module = compiled(module)
        if job.grad_checkpointing:
            from trainables.training.optional.checkpointing import checkpointed

            module = checkpointed(module)
        if size == 1:
            return module
        from torch.nn.parallel import DistributedDataParallel

        # batch norms synchronize themselves; gradients are views of what is sent, which takes no second copy of them
        return DistributedDataParallel(module, broadcast_buffers=False, gradient_as_bucket_view=True)

    return DataParallel(rank, size, wrap)


def train_job(job: Job, device: str, team: DataParallel, say: Say) -> None:
    """Trains as long as `say` returns True; once more, in more parts, where the memory of a GPU is too small."""
    from trainables.training.runtime import release_memory

    try:
        require_code(job.run.recipe, job.code)
        with local_files(job) as (local, sender):

            def send_and_say(epoch: Measurement | Diverged, local: Job) -> bool:
                if sender is not None and is_last(epoch, local):
                    sender.last()
                return say(epoch, local)

            if not _fits(local, device, team, send_and_say):
                _train_in_more_parts(local, device, team, send_and_say)
    except Exception as error:
        raise failure(error) from error
    finally:
        release_memory()


def _fits(job: Job, device: str, team: DataParallel, say: Say) -> bool:
    """Trains a job; False if the memory of the GPU ran out. The loop is always closed: it writes its checkpoint."""
    import torch

    from trainables.training.loop import train
    from trainables.training.runtime import runtime

    parents = {use: Path(file) for use, file in job.parents.items()}
    folder, data = Path(job.folder), None if job.data is None else Path(job.data)
    epochs = train(job.run, folder, device, parents=parents, team=team, data=data, loader_workers=job.loader_workers)
    bound_memory(job, device)
    try:
        with runtime(job.threads, job.run.recipe.optimizer.precision, job.deterministic), closing(epochs):
            for epoch in epochs:
                if not say(epoch, job):
                    return True
    except torch.OutOfMemoryError:
        return False
    return True


def bound_memory(job: Job, device: str) -> None:
    """Lets the tensors of a run fill no more than its part of a GPU that it shares."""
    import torch

    if job.runs_per_gpu > 1 and device.startswith("cuda"):
        torch.cuda.set_per_process_memory_fraction(SHARED / job.runs_per_gpu)


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
