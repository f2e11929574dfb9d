"""Trains one job with several workers: Ray Train's worker group with DDP (gloo on CPUs, NCCL on GPUs)."""

from __future__ import annotations

import asyncio
import math
import threading
from contextlib import suppress
from typing import Any

import ray
import ray.train
from ray._raylet import PlacementGroupID
from ray.train.torch import TorchTrainer, get_device
from ray.util import get_current_placement_group, remove_placement_group
from ray.util.placement_group import PlacementGroup

from trainables.launch.errors import LOST, WorkError, group_failure, of_partner
from trainables.launch.job import Job, enter
from trainables.launch.message import message
from trainables.launch.work_files import is_uri
from trainables.launch.worker import member_of, train_job
from trainables.polling import poll
from trainables.recipe.outcome import Diverged, Measurement
from trainables.remote_files import RemoteFolder

HELD = "resources.txt"
"""The file in a job's folder that names what its workers hold on the cluster: Ray's placement group."""
START_TRIES = 10
"""How many times, a minute each, a group waits for the resources of its workers before its run fails."""

GONE_S = 20.0
"""How long a failed group waits for Ray to report a lost node: the workers on other nodes fail before Ray knows."""


class Bridge:
    """Carries messages from a worker group to the process that started it: one an epoch, each with an answer.

    It is the class of a Ray actor with asyncio methods, so that one method can wait without blocking the others. Rank 0
    sends a message and waits; the other process receives it and answers. At most one message is queued. After `end`,
    every message is answered with an end.
    """

    def __init__(self) -> None:
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._answers: asyncio.Queue[bool] = asyncio.Queue()
        self._ended = False

    async def send(self, message: dict[str, Any]) -> bool:
        """Sends a message and waits for its answer: True to go on, False to end."""
        if self._ended:
            return False
        await self._messages.put(message)
        return await self._answers.get()

    async def receive(self) -> dict[str, Any] | None:
        """Returns the next message; None if none will come."""
        return await self._messages.get()

    async def go_on(self) -> None:
        """Answers the last message: go on."""
        await self._answers.put(True)

    async def end(self) -> None:
        """Answers the last message, if there is one, and all later ones: end."""
        self._ended = True
        await self._answers.put(False)

    async def close(self) -> None:
        """Marks the end of all messages."""
        await self._messages.put(None)


class Group:
    """The workers that train one job together. Call `next` until it returns None, and `close` at any time.

    Ray Train's `fit` waits in another thread; the messages of rank 0 come over a `Bridge`. After `close` nothing is
    left: all ranks end after their current epoch, rank 0 writes its checkpoint, and their resources are free again.
    """

    def __init__(self, job: Job) -> None:
        self._bridge = ray.remote(num_cpus=0)(Bridge).remote()
        self._nodes = _nodes()
        self._error: Exception | None = None
        self._answered = True
        self._fit = threading.Thread(target=self._train, args=(job,), name="fit", daemon=True)
        self._fit.start()

    def next(self) -> dict[str, Any] | None:
        """Lets the group go on, and waits for its next message; None when the run has ended. Raises: WorkError."""
        if not self._answered:
            ray.get(self._bridge.go_on.remote())
        received: dict[str, Any] | None = ray.get(self._bridge.receive.remote())
        self._answered = received is None
        if received is None:
            self._fit.join()
        if self._error is not None:
            failure = group_failure(self._error)
            if of_partner(failure) and poll(lambda: not self._nodes <= _nodes(), 0.5, GONE_S):
                failure = WorkError(f"a worker: {LOST}")
            raise failure from None
        return received

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


def _nodes() -> set[str]:
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


def free(job: Job) -> None:
    """Ends what is left of a job's workers, and frees what they hold, once the process that asked for them is dead.

    Ray Train does so itself, but not where one of the workers stands still: the next group would wait for ever.
    """
    folder = RemoteFolder(job.folder, patience=0.0)
    with suppress(OSError):  # a storage that is away
        if (group := folder.read(HELD)) is not None:
            remove_placement_group(PlacementGroup(PlacementGroupID(bytes.fromhex(group.decode()))))
            folder.remove(HELD)


def _trainer(job: Job, bridge: Any) -> TorchTrainer:
    """Returns a trainer without Ray Train's own retries, because the driver counts the attempts."""
    cuda = job.device.startswith("cuda")
    failures = ray.train.FailureConfig(max_failures=0, controller_failure_limit=START_TRIES, max_preemption_failures=0)
    path, system = RemoteFolder(job.folder).arrow() if is_uri(job.folder) else (job.folder, None)
    return TorchTrainer(
        lambda: _member(job, bridge),
        scaling_config=ray.train.ScalingConfig(
            num_workers=job.workers if job.min_workers is None else (job.min_workers, job.workers),
            elastic_resize_monitor_interval_s=math.inf,  # an attempt keeps its workers: to grow costs what it learned
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
    """Trains as one of the workers. Rank 0 reports for all of them, and all receive the answer: to go on or to end."""
    import torch

    enter(job.cwd)
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    job = job.model_copy(update={"workers": size})
    if rank == 0:
        with suppress(OSError):  # a folder that this node does not see
            RemoteFolder(job.folder, patience=0.0).write(HELD, get_current_placement_group().id.hex().encode())
    device = str(get_device()) if job.device.startswith("cuda") else job.device

    def say(epoch: Measurement | Diverged, job: Job) -> bool:
        on = rank > 0 or ray.get(bridge.send.remote(message(job.run, epoch, job)))
        verdict = torch.tensor(int(on), device=device)
        if size > 1:
            torch.distributed.broadcast(verdict, src=0)
        return bool(verdict)

    train_job(job, device, member_of(job, rank, size), say)
