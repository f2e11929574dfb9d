"""The trainables of Ray Tune: they train one job, in Tune's own process or in a worker group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ray import tune

from trainables.launch.job import Job

if TYPE_CHECKING:
    from trainables.launch.alone import Alone
    from trainables.launch.worker import Group


class JobTrial(tune.Trainable, ABC):  # type: ignore[misc]
    """What Tune calls: a step is an epoch. Trains in Tune's process, or in a worker group that it waits for."""

    @abstractmethod
    def begin(self, job: Job) -> Alone | Group:
        """Starts the training in the background."""

    def setup(self, config: dict[str, Any]) -> None:
        """Starts the training of the config's job."""
        self.epoch = 0
        self.training = self.begin(Job.received(config["job"]))

    def step(self) -> dict[str, Any]:
        """The next epoch's message; after the last one, that the run is done. Tune needs the metric each time."""
        message = self.training.next() or {"epoch": self.epoch, "done": True}
        self.epoch = message["epoch"]
        return message

    def cleanup(self) -> None:
        """Ends the training at any time; what it has to write is written."""
        self.training.close()


class AloneTrial(JobTrial):
    """Trains in its own process, which then takes the next job."""

    def begin(self, job: Job) -> Alone:
        """Starts a thread."""
        from trainables.launch.imported import imported_code

        imported_code()  # first: the import of torch takes seconds, in which a file could be edited
        from trainables.launch.alone import Alone

        return Alone(job)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Ends the job before, and starts the next one."""
        self.cleanup()
        self.setup(new_config)
        return True


class GroupTrial(JobTrial):
    """Waits for a worker group, and ends when all its workers have ended."""

    def begin(self, job: Job) -> Group:
        """Starts the workers."""
        from trainables.launch.worker import Group

        return Group(job)
