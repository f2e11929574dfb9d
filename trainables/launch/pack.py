"""Trains several jobs in this process as one model: a pack. Where that cannot be, one job after another.

`report` gets one message an epoch for all that were measured, with what a worker reports of each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from trainables.launch.errors import failure
from trainables.launch.job import Job
from trainables.launch.message import is_last, message
from trainables.launch.work_files import local_files
from trainables.launch.worker import Report, bound_memory, in_ray_train, member_of, train_job
from trainables.recipe.outcome import Diverged, Measurement
from trainables.recipe.revisions import require_code


def work_together(jobs: Sequence[Job], report: Report) -> None:
    """Trains jobs in this process, reporting epoch by epoch, as long as `report` returns True. Raises: WorkError."""
    in_ray_train(lambda: _Pack(report).train(jobs))


class _Pack:
    """The training of jobs, as one where that can be. `report` as for `work`; `going`: nobody has ended it."""

    def __init__(self, report: Report) -> None:
        self.report, self.going = report, True

    def train(self, jobs: Sequence[Job]) -> None:
        """Trains jobs as one; those of one recipe where all cannot be; and one after another where they cannot either.

        Where the memory of a GPU does not hold them, the halves are trained one after another.
        """
        from torch import OutOfMemoryError

        from trainables.training.optional.fused import NotFusedError
        from trainables.training.optional.out_of_memory import free_memory
        from trainables.training.runtime import release_memory

        jobs = [job for job in jobs if self._is_awaited(job)]
        if not self.going or not jobs:
            return
        if len(jobs) == 1:
            train_job(jobs[0], jobs[0].device, member_of(jobs[0]), self._say)
            return
        try:
            self._train([job.model_copy(update={"fused": len(jobs)}) for job in jobs])
            return
        except NotFusedError:
            parts = _by_recipe(jobs)
        except OutOfMemoryError:
            parts = [jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]]
        except Exception as error:
            raise failure(error) from error
        finally:
            release_memory()
        free_memory()
        for part in parts:
            self.train(part)

    def _train(self, jobs: Sequence[Job]) -> None:
        from trainables.training.optional.fused import train_together
        from trainables.training.runtime import runtime

        first = jobs[0]
        for job in jobs:
            require_code(job.run.recipe, job.code)
        with ExitStack() as files:
            local = [files.enter_context(local_files(job)) for job in jobs]
            folders = [Path(job.folder) for job, _ in local]
            data = None if first.data is None else Path(first.data)
            bound_memory(first, first.device)
            wrap = member_of(first).wrap
            training = train_together([job.run for job in jobs], folders, first.device, data, wrap)
            with runtime(first.threads, first.run.recipe.optimizer.precision, first.deterministic), closing(training):
                for outcomes in training:
                    messages = []
                    for index, outcome in outcomes.items():
                        job, sender = local[index]
                        if sender is not None and is_last(outcome, job):
                            sender.last()  # the weights are where they belong before a run's last message
                        messages.append({"run": job.run.key, **message(job.run, outcome, job)})
                    if not self._send(messages):
                        return

    def _say(self, outcome: Measurement | Diverged, job: Job) -> bool:
        return self._is_awaited(job) and self._send([{"run": job.run.key, **message(job.run, outcome, job)}])

    def _send(self, messages: list[dict[str, Any]]) -> bool:
        epoch = max((message["epoch"] for message in messages), default=0)
        self.going = self.going and self.report({"epoch": epoch, "runs": json.dumps(messages)})
        return self.going

    @staticmethod
    def _is_awaited(job: Job) -> bool:
        """Returns whether somebody waits for a run: the driver removes the folder of one that it stops."""
        return "://" in job.folder or Path(job.folder).is_dir()


def _by_recipe(jobs: Sequence[Job]) -> list[list[Job]]:
    """Returns jobs by recipe; one by one where they have a recipe in common."""
    parts: list[list[Job]] = []
    for job in jobs:
        same = next((part for part in parts if part[0].run.recipe == job.run.recipe), None)
        if same is None:
            parts.append([job])
        else:
            same.append(job)
    return parts if len(parts) > 1 else [[job] for job in jobs]
