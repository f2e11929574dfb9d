"""Lets a driver conduct runs that train nothing, in simulated time.

The driver is the real one, and its time is measured: it answers one request after another, so a run may have to wait
for it. What a run itself takes is made up.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any
from zipfile import ZipFile

from search_spaces.study import Trial
from service.execution.driver import Driver
from service.execution.simulation.constants import START_S, TUNE_REPORT_S, TUNE_RUN_S
from service.execution.simulation.fake_runs import FakeRuns
from trainables.launch.job import Job
from trainables.launch.work_files import WEIGHTS
from trainables.recipe.outcome import Measurement


@dataclass
class Busy:
    """What was done, and how long it took. Units: seconds."""

    count: int = 0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """Of one; 0 where there is none."""
        return self.seconds / max(self.count, 1)

    def add(self, seconds: float) -> None:
        """One more."""
        self.count += 1
        self.seconds += seconds

    def __sub__(self, before: Busy) -> Busy:
        return Busy(self.count - before.count, self.seconds - before.seconds)


@dataclass
class Clock:
    """Where a simulation stands. Units: seconds of simulated time; `trained` and `slots` are run-seconds.

    `proposals`: calls of the driver that chose a new point; `decisions`: all its other calls; `tune`: what Ray Tune
    takes in the driver's process, which was measured before.
    """

    now: float = 0.0
    trained: float = 0.0
    trials: int = 0
    runs: int = 0
    epochs: int = 0
    proposals: Busy = field(default_factory=Busy)
    decisions: Busy = field(default_factory=Busy)
    tune: Busy = field(default_factory=Busy)


class Engine:
    """Fake runs on so many slots, such as GPUs.

    `epoch_s`: the time of an epoch. `timer`: seconds from any start, for the driver's own time. `look` is called with
    the clock after each trial that was begun.
    """

    def __init__(
        self,
        driver: Driver,
        runs: FakeRuns,
        slots: int,
        epoch_s: float,
        *,
        look: Callable[[Clock], None] = lambda clock: None,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        self.driver, self.runs, self.slots, self.epoch_s = driver, runs, slots, epoch_s
        self.look, self.timer = look, timer
        self.clock = Clock()
        self._free_at = 0.0  # when the driver has answered all requests
        self._reports: list[tuple[float, int, Job, int]] = []
        self._trials: dict[str, Trial] = {}
        self._seen = 0

    def drive(self) -> Clock:
        """Until nothing is left to train."""
        free = self.slots
        while True:
            while free and (job := self._next()):
                free -= 1
                self._begin(job)
            if not self._reports:
                self.clock.now = self._free_at
                return self.clock
            self.clock.now, _, job, epoch = heapq.heappop(self._reports)
            if self._report(job, epoch):
                self._expect(job, epoch + 1, self._free_at)
            else:
                free += 1

    def _next(self) -> Job | None:
        before = len(self.driver.history.trials)
        begun = self.timer()
        job = self.driver.next()
        spent = self.timer() - begun
        planned = len(self.driver.history.trials) - before
        (self.clock.proposals if planned else self.clock.decisions).add(spent)
        self._occupy(spent)
        if planned:
            self.clock.trials += planned
            self.look(self.clock)
        return job if isinstance(job, Job) else None

    def _begin(self, job: Job) -> None:
        self.clock.runs += 1
        self.clock.tune.add(TUNE_RUN_S)
        self._occupy(TUNE_RUN_S)
        self._expect(job, 1, self._free_at + START_S)

    def _expect(self, job: Job, epoch: int, begun: float) -> None:
        asked = self.clock.epochs + self.clock.runs  # of two reports of one moment, the run that began first is first
        heapq.heappush(self._reports, (begun + self._epoch_s(job), asked, job, epoch))

    def _epoch_s(self, job: Job) -> float:
        return self.epoch_s * self.runs.pace(job.run.key)

    def _report(self, job: Job, epoch: int) -> bool:
        """Whether the run goes on after an epoch."""
        epochs = job.run.recipe.optimizer.epochs
        if epoch == epochs:
            with ZipFile(Path(job.folder) / WEIGHTS, "w"):  # weights are a zip archive; this one is empty
                pass
        begun = self.timer()
        on = self.driver.on_result(job, self._message(job, epoch))
        spent = self.timer() - begun
        self.clock.epochs += 1
        self.clock.trained += self._epoch_s(job)
        self.clock.decisions.add(spent)
        self.clock.tune.add(TUNE_REPORT_S)
        self._occupy(spent + TUNE_REPORT_S)
        return on and epoch < epochs

    def _message(self, job: Job, epoch: int) -> dict[str, Any]:
        """What a worker sends of an epoch."""
        values = self.runs.values(self._trial(job), job.run.seed, epoch)
        values["time/epoch_s"] = self._epoch_s(job)
        result = Measurement(epoch=epoch, values=values).model_dump_json()
        told = {"simulated": True}
        return {"kind": "measured", "result": result, "code": job.code.digest, "environment": json.dumps(told)}

    def _trial(self, job: Job) -> Trial:
        for trial in self.driver.history.trials[self._seen :]:
            self._trials[trial.label] = trial
        self._seen = len(self.driver.history.trials)
        return self._trials[job.label]

    def _occupy(self, seconds: float) -> None:
        """The driver is busy from now, or from when it is free, for so long."""
        self._free_at = max(self.clock.now, self._free_at) + seconds
