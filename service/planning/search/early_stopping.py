"""Which first seeds of a search are stopped early: successive halving. Pure."""

from __future__ import annotations

import math

from search_spaces.roles import CONFIRMED
from search_spaces.study import Edition, Search

FIRST_RUNG = 3
"""The first rung is at a third of the epochs: before it, good and bad trials are both at chance."""


def rungs(epochs: int) -> range:
    """The epochs after which trials are compared: a third of all, rounded up, and its double, but not the last."""
    first = math.ceil(epochs / FIRST_RUNG)
    return range(first, epochs, first)


class EarlyStopper:
    """Successive halving of trials that cannot become one of the best any more.

    At each rung the best 1/factor of the trials that reached it continue. So does a trial that would end among the
    best `CONFIRMED` if it gained as much from there on as the trial that gained most. Until so many have ended, none is
    stopped.

    It keeps nothing but the values that were reported, so the measurements of a journal, reported in their order,
    give the same decisions again.
    Source: Li et al. 2018 (ASHA). Differs: the rungs are at thirds of the epochs for every factor; a trial that
    was stopped is never continued; the second condition, because trials that learn slowly may end as the best.
    """

    def __init__(self, edition: Edition) -> None:
        plan = edition.study.plan
        assert isinstance(plan, Search)
        assert plan.stop is not None
        self.factor, self.epochs = plan.stop.factor, edition.study.base.optimizer.epochs
        self._values: dict[int, dict[int, float]] = {epoch: {} for epoch in (*rungs(self.epochs), self.epochs)}

    def report(self, number: int, epoch: int, value: float) -> float | None:
        """Adds a measurement of a trial's first seed; the cut-off where the trial is to be stopped, else None.

        The first report of an epoch counts: a resumed run measures some epochs again.
        """
        reached, ends = self._values.get(epoch), self._values[self.epochs]
        if reached is None or number in reached:
            return None
        reached[number] = value
        if epoch == self.epochs or len(ends) < CONFIRMED:
            return None
        halved = sorted(reached.values())[-max(len(reached) // self.factor, 1)]
        gain = max((end - reached[other] for other, end in ends.items() if other in reached), default=math.inf)
        cutoff = min(halved, sorted(ends.values())[-CONFIRMED] - gain)
        return cutoff if value < cutoff else None
