"""How other ways to stop trials early would have done on the same points: no stopping, and Ray's ASHA."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from search_spaces.study import Edition, Search, Trial
from service.execution.simulation.fake_runs import FakeRuns
from service.planning.search.early_stopping import EarlyStopper, rungs

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
    """A row for each way; empty where the study stops nothing early."""
    plan = edition.study.plan
    if not isinstance(plan, Search) or plan.stop is None or not trials:
        return []
    from service.execution.tune.asha import Asha  # Ray, which a study that stops nothing does not need

    ours = EarlyStopper(edition)
    asha = Asha(runs.epochs, rungs(runs.epochs)[0], plan.stop.factor)
    ways: dict[str, GoesOn] = {
        "locus": lambda number, epoch, value: ours.report(number, epoch, value) is None,
        "Ray's ASHA": asha.goes_on,
        "none": lambda number, epoch, value: True,
    }
    ranked = [trial.number for trial in sorted(trials, key=runs.quality, reverse=True)]
    found: list[Stopping] = []
    for way, goes_on in ways.items():
        trained, final = _replay(goes_on, runs, trials, slots)
        chosen = max(final, key=final.__getitem__)
        found.append(Stopping(way, trained, len(final), 1 + ranked.index(chosen)))
    return found


def _replay(goes_on: GoesOn, runs: FakeRuns, trials: list[Trial], slots: int) -> tuple[int, dict[int, float]]:
    """How many epochs are trained, and the last values of the trials that complete. The driver takes no time."""
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
