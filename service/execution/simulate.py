"""Simulates a study: how long it would take, what its early stopping would do, and which part would be full first."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

from search_spaces.study import Edition, Search, Trial
from service.execution.driver import Driver
from service.execution.simulation_engine import Clock, Engine, FakeRuns
from service.planning.forecast import usual_epoch_s
from service.planning.placement import Placement
from service.planning.stopping import EarlyStopper, rungs
from service.storage.editions import resolve_edition, save_edition
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import Journal
from service.storage.outcomes import Outcomes
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.cost import estimate_cost
from trainables.recipe.evaluation import number_bytes

EPOCH_S = 60.0
"""How long an epoch takes where nobody knows: for shares of time alone, never for a time that is said."""
MLFLOW_ROW_S = 0.3
"""The time to send one run or trial with its curve to an MLflow server with PostgreSQL. It was measured once, as the
next one was (`deploy/sizing.md` says with what)."""
MEMORY_BYTES = 17_000
"""The driver's memory for a trial of three seeds."""
CHECKPOINT_S = 20.0
"""How often a run writes a checkpoint, at most; as `trainables/training/saving.py` has it, which imports torch."""
CHECKPOINT_COPIES = 3
"""A checkpoint holds each parameter and the two moments of its optimizer."""


@dataclass(frozen=True)
class Window:
    """A part of a simulation, such as its last tenth.

    `trials`: how many there are at its end; `used`: the share of the slots' time in which runs trained. The other
    numbers are the shares of its time in which the driver proposed points, took its other decisions and wrote them to
    the journal, or was in Ray Tune, and in which rows were sent to MLflow. A share above 1 means: it falls behind.
    Units: simulated seconds; `proposal_s` and `decision_s` are the driver's seconds a call.
    """

    trials: int
    seconds: float
    used: float
    proposal_s: float
    decision_s: float
    proposals: float
    decisions: float
    tune: float
    mlflow: float

    @property
    def driver(self) -> float:
        """The share of its time in which the driver is busy: it does one thing at a time."""
        return self.proposals + self.decisions + self.tune


def window(before: Clock, after: Clock, slots: int) -> Window:
    """Returns what happened between two moments."""
    seconds = max(after.now - before.now, 1e-9)
    proposals, decisions = after.proposals - before.proposals, after.decisions - before.decisions
    rows = (after.trials - before.trials) + (after.runs - before.runs)
    return Window(
        trials=after.trials,
        seconds=seconds,
        used=(after.trained - before.trained) / seconds / slots,
        proposal_s=proposals.mean,
        decision_s=decisions.mean,
        proposals=proposals.seconds / seconds,
        decisions=decisions.seconds / seconds,
        tune=(after.tune - before.tune).seconds / seconds,
        mlflow=rows * MLFLOW_ROW_S / seconds,
    )


def copied(clock: Clock) -> Clock:
    """Returns a clock's state, which later events do not change."""
    return replace(clock, **{name: replace(getattr(clock, name)) for name in ("proposals", "decisions", "tune")})


GoesOn = Callable[[int, int, float], bool]
"""Whether a trial continues: its number, the epoch, and its value there."""


@dataclass(frozen=True)
class Stopping:
    """What a way to stop early costs, and which trial it would choose. Only the first seed of each trial is trained.

    `epochs`: how many are trained; `completed`: how many trials reach the last one; `rank`: the place of the trial that
    it would choose, among all trials by their true scores (1 is the best one).
    """

    way: str
    epochs: int
    completed: int
    rank: int


def compare_stopping(edition: Edition, runs: FakeRuns, trials: list[Trial], slots: int) -> list[Stopping]:
    """Returns a row for each way; empty if the study stops nothing early."""
    plan = edition.study.plan
    if not isinstance(plan, Search) or plan.stop is None or not trials:
        return []
    from service.execution.tune import Asha  # Ray, which a study that stops nothing does not need

    ours = EarlyStopper(edition, seeds=1)
    asha = Asha(runs.epochs, rungs(runs.epochs)[0], plan.stop.factor)
    ways: dict[str, GoesOn] = {
        "locus": lambda number, epoch, value: ours.report(number, epoch, value) is None,
        "Ray's ASHA": asha.goes_on,
        "none": lambda number, epoch, value: True,
    }
    ranked = [trial.number for trial in sorted(trials, key=runs.quality, reverse=True)]
    rows: list[Stopping] = []
    for way, goes_on in ways.items():
        trained, final = _replay(goes_on, runs, trials, slots)
        chosen = max(final, key=final.__getitem__)
        rows.append(Stopping(way, trained, len(final), 1 + ranked.index(chosen)))
    return rows


def _replay(goes_on: GoesOn, runs: FakeRuns, trials: list[Trial], slots: int) -> tuple[int, dict[int, float]]:
    """Returns how many epochs are trained, and the last values of the trials that complete.

    The driver takes no time.
    """
    waiting = list(reversed(trials))
    reports: list[tuple[float, int, int, Trial]] = []  # time, number, epoch, trial
    trained, final = 0, dict[int, float]()

    def begin(now: float) -> None:
        if waiting:
            trial = waiting.pop()
            heapq.heappush(reports, (now + runs.pace(trial.run(0).key), trial.number, 1, trial))

    for _ in range(slots):
        begin(0.0)
    while reports:
        now, number, epoch, trial = heapq.heappop(reports)
        trained += 1
        value = runs.values(trial, 0, epoch)[trial.score.metric]
        goes = goes_on(number, epoch, value)  # the last epoch is told, too, but ends a trial in any case
        if epoch == runs.epochs:
            final[number] = value
            begin(now)
        elif goes:
            heapq.heappush(reports, (now + runs.pace(trial.run(0).key), number, epoch + 1, trial))
        else:
            begin(now)
    return trained, final


WINDOWS = 10
"""Into so many parts a simulation is divided: some costs grow with the number of trials."""


@dataclass(frozen=True)
class EpochTime:
    """How long an epoch takes, and who says so, in words; empty if nobody does. Units: seconds."""

    seconds: float
    source: str


def epoch_time(edition: Edition, home: Home) -> EpochTime:
    """Returns the time of an epoch as `plan` knows it: measured at a home, else from the minutes that the study states.

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

    `epoch_from`: who says how long an epoch takes (`epoch_s`); empty if nobody does, and `seconds` mean nothing.
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
        return max(self.windows, key=lambda part: max(part.driver, part.mlflow))

    @property
    def bottleneck(self) -> tuple[str, float]:
        """What would be full first, and the share of its time in which it is busy where that is greatest."""
        busiest = self.busiest
        shares = {"the driver": busiest.driver, "MLflow": busiest.mlflow}
        first = max(shares, key=lambda part: shares[part])
        return first, shares[first]

    def plain(self) -> dict[str, Any]:
        """Returns plain values."""
        rows = {name: [vars(row) for row in getattr(self, name)] for name in ("windows", "stopping")}
        part, share = self.bottleneck
        values = {**vars(self), **rows, "bottleneck": {"part": part, "share": share}}
        return values if self.epoch_from else {**values, "epoch_s": None, "seconds": None}


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
    points, base = driver.history.of("trial"), edition.study.base
    checkpoint_bytes = CHECKPOINT_COPIES * number_bytes(base) * estimate_cost(base).learnt
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
        checkpoint_bytes_s=slots * checkpoint_bytes / CHECKPOINT_S,
        took=perf_counter() - begun,
    )
