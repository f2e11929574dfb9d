"""Lets a driver conduct runs that train nothing, in simulated time.

The driver is the real one, and its time is measured: it answers one request after another, so a run may have to wait
for it. What a run itself takes is made up.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any
from zipfile import ZipFile

from search_spaces.space import Coordinate, Integer, Real
from search_spaces.study import Edition, Search, Trial
from service.execution.driver import Driver
from trainables.launch.job import Job
from trainables.launch.work_files import WEIGHTS
from trainables.recipe.outcome import Measurement

TUNE_RUN_S = 0.012
"""The driver's time for a run in Ray Tune: its process is placed, begun and ended. Units: seconds of a processor.

It and the next two were measured once (`deploy/sizing.md` says with what).
"""
TUNE_REPORT_S = 0.002
"""The driver's time for an epoch's report in Ray Tune, beside what locus does with it."""
START_S = 0.1
"""From a run's start to its first step, in a process that has torch already."""
CEILING = 0.9
"""The share of the way from chance to a perfect score that the best point goes."""
WIDTH = 0.35
"""How far from the best point, in the share of a domain, a score falls to 1/e of its height."""
NOISE = 0.01
"""The standard deviation of a score over seeds and epochs."""
JITTER = 0.1
"""How much longer or shorter the epochs of a run may take than those of others."""


@dataclass(frozen=True)
class FakeRuns:
    """The curves of an edition's runs. A search has one best point, an ablation draws a score for each arm.

    Trials learn at different speeds, so their order at a rung differs from that at the end, as in real studies.
    """

    edition: Edition

    @property
    def epochs(self) -> int:
        """How long a run trains."""
        return self.edition.study.base.optimizer.trained_epochs

    def quality(self, trial: Trial) -> float:
        """Returns how good a trial is: 1 at the best point, near 0 far from it."""
        plan = self.edition.study.plan
        if not isinstance(plan, Search) or trial.role == "parent":
            return self._chance_of("arm", trial.name)
        coordinates = plan.space.coordinates(self.edition.study.base, trial.values)
        apart = [
            self._place(name, *coordinate) - self._chance_of("best", name) for name, coordinate in coordinates.items()
        ]
        return math.exp(-sum((distance / WIDTH) ** 2 for distance in apart) / len(apart))

    def values(self, trial: Trial, seed: int, epoch: int) -> dict[str, float]:
        """Returns what an epoch of a run measures. Epochs count from 1."""
        final = self._chance + (1 - self._chance) * CEILING * self.quality(trial)
        slowness = self.epochs * (0.1 + 0.5 * self._chance_of("slowness", trial.run(0).key))
        share = (1 - math.exp(-epoch / slowness)) / (1 - math.exp(-self.epochs / slowness))
        noise = self._random(trial.run(seed).key, epoch).gauss(0, NOISE)
        value = self._chance + (final - self._chance) * share + noise
        tests = {trial.score.test: value} if epoch == self.epochs else {}
        return {"train/loss": 1 - value, trial.score.metric: value, **tests}

    def pace(self, key: str) -> float:
        """Returns how long the epochs of a run take beside those of others; about 1."""
        return 1 + JITTER * (2 * self._chance_of("pace", key) - 1)

    @cached_property
    def _chance(self) -> float:
        return self.edition.study.base.data.chance("val")

    def _place(self, name: str, coordinate: Coordinate, value: Any) -> float:
        """Returns where a value lies in its domain, from 0 to 1; the options of a choice lie anywhere."""
        match coordinate:
            case Real(low=low, high=high, log=True):
                return math.log(value / low) / math.log(high / low)
            case Real(low=low, high=high) | Integer(low=low, high=high):
                return float((value - low) / (high - low))
            case _:
                return self._chance_of("option", name, value)

    def _chance_of(self, *words: object) -> float:
        return self._random(*words).random()

    def _random(self, *words: object) -> random.Random:
        return random.Random(f"{self.edition.study.name} {' '.join(map(str, words))}")


@dataclass
class Busy:
    """What was done, and how long it took. Units: seconds."""

    count: int = 0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """Of one; 0 if there is none."""
        return self.seconds / max(self.count, 1)

    def add(self, seconds: float) -> None:
        """Counts one more."""
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
        """Drives the jobs until nothing is left to train."""
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
        """Returns whether the run goes on after an epoch."""
        epochs = job.run.recipe.optimizer.trained_epochs
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
        """Returns what a worker sends of an epoch."""
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
        """Keeps the driver busy from now, or from when it is free, for so long."""
        self._free_at = max(self.clock.now, self._free_at) + seconds
