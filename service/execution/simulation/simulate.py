"""Simulates a study: how long it would take, what its early stopping would do, and which part would be full first."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

from search_spaces.study import Edition
from service.execution.driver import Driver
from service.execution.simulation.constants import CHECKPOINT_COPIES, CHECKPOINT_S, EPOCH_S, MEMORY_BYTES
from service.execution.simulation.engine import Clock, Engine
from service.execution.simulation.fake_runs import FakeRuns
from service.execution.simulation.load import Window, copied, window
from service.execution.simulation.stopping import Stopping, compare_stopping
from service.planning.estimate import usual_epoch_s
from service.planning.placement import Placement
from service.storage.editions import resolve_edition, save_edition
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import Journal
from service.storage.outcomes import Outcomes
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.cost import estimate_cost
from trainables.recipe.evaluation import number_bytes

WINDOWS = 10
"""Into so many parts a simulation is divided: some costs grow with the number of trials."""


@dataclass(frozen=True)
class EpochTime:
    """How long an epoch takes, and who says so, in words; empty where nobody does. Units: seconds."""

    seconds: float
    source: str


def epoch_time(edition: Edition, home: Home) -> EpochTime:
    """The time of an epoch as `plan` knows it: measured at a home, else that of the minutes which the study states.

    Cost: for stated minutes a simulation, as early stopping decides how many epochs they are for.
    """
    outcomes = Outcomes(home)
    history = History.open(home, resolve_edition(edition, home), CodeDigests())
    measured = usual_epoch_s(history, outcomes)
    if measured is not None:
        return EpochTime(measured, "measured at this home")
    minutes = edition.study.minutes.get(edition.budget) if edition.stated_time else None
    if minutes is None:
        return EpochTime(EPOCH_S, "")
    nominal = simulate(edition, STATED_CORES, EpochTime(EPOCH_S, "")).seconds
    return EpochTime(EPOCH_S * 60 * minutes / nominal, f"{edition.stated_time} on {STATED_CORES} cores, as it says")


STATED_CORES = 2
"""What the minutes of studies are for: so many cores, a run on each."""


@dataclass(frozen=True)
class Simulated:
    """What came out. Units: seconds of simulated time, bytes; `took`: seconds of this machine.

    `epoch_from`: who says how long an epoch takes (`epoch_s`); empty where nobody does, and `seconds` mean nothing.
    `checkpoint_bytes_s`: what all runs together write to their work folders in a second, where a checkpoint takes no
    time; a run never gives more than 2 % of its time to checkpoints.
    """

    id: str
    slots: int
    trials: int
    runs: int
    epochs: int
    epoch_s: float
    epoch_from: str
    seconds: float
    used: float
    windows: tuple[Window, ...]
    stopping: tuple[Stopping, ...]
    journal_bytes: int
    memory_bytes: int
    checkpoint_bytes_s: float
    took: float

    @property
    def busiest(self) -> Window:
        """The part of the simulation in which the driver or MLflow is busiest."""
        return max(self.windows, key=lambda one: max(one.driver, one.mlflow))

    @property
    def bottleneck(self) -> tuple[str, float]:
        """What would be full first, and the share of its time in which it is busy where that is greatest."""
        found = self.busiest
        shares = {"the driver": found.driver, "MLflow": found.mlflow}
        first = max(shares, key=lambda part: shares[part])
        return first, shares[first]

    def plain(self) -> dict[str, Any]:
        """As plain values."""
        rows = {name: [vars(row) for row in getattr(self, name)] for name in ("windows", "stopping")}
        part, share = self.bottleneck
        found = {**vars(self), **rows, "bottleneck": {"part": part, "share": share}}
        return found if self.epoch_from else {**found, "epoch_s": None, "seconds": None}


def simulate(
    edition: Edition,
    slots: int,
    epoch: EpochTime,
    look: Callable[[int, int], None] = lambda done, asked: None,
    timer: Callable[[], float] = perf_counter,
) -> Simulated:
    """Runs a study with runs that train nothing, in a home of its own that is removed again.

    `slots`: how many runs train together; `epoch`: how long an epoch takes; `look` is called with the trials that
    were begun and those that were asked for; `timer` gives seconds from any start, for the driver's own time.
    Cost: the driver's real time, about 0.02 s a trial, and more for each proposal of TPE.
    """
    begun, runs = perf_counter(), FakeRuns(edition)
    marks = [Clock()]

    def seen(clock: Clock) -> None:
        asked = max(driver.history.trial_count + driver.history.rival_count, clock.trials)
        look(clock.trials, asked)
        if clock.trials * WINDOWS >= asked * len(marks):
            marks.append(copied(clock))

    with tempfile.TemporaryDirectory(prefix="locus-simulated-") as folder:
        home = Home(Path(folder))
        files = home.study(edition.id)
        with Journal(files.journal, files.lock) as journal:
            save_edition(edition, home)
            driver = Driver(edition, home, journal, Placement(max_concurrent=slots))
            driver.begin()
            try:
                clock = Engine(driver, runs, slots, epoch.seconds, look=seen, timer=timer).drive()
            finally:
                driver.in_flight.close()
            size = files.journal.stat().st_size
    points = driver.history.of("trial")
    marks.append(copied(clock))
    windows = tuple(window(before, after, slots) for before, after in pairwise(marks) if after.now > before.now)
    return Simulated(
        id=edition.id,
        slots=slots,
        trials=len(points),
        runs=clock.runs,
        epochs=clock.epochs,
        epoch_s=epoch.seconds,
        epoch_from=epoch.source,
        seconds=clock.now,
        used=clock.trained / clock.now / slots,
        windows=windows,
        stopping=tuple(compare_stopping(edition, runs, points, slots)),
        journal_bytes=size,
        memory_bytes=MEMORY_BYTES * clock.trials,
        checkpoint_bytes_s=slots * _checkpoint_bytes(edition) / CHECKPOINT_S,
        took=perf_counter() - begun,
    )


def _checkpoint_bytes(edition: Edition) -> int:
    base = edition.study.base
    return CHECKPOINT_COPIES * number_bytes(base) * estimate_cost(base).learnt
