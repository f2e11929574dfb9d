"""Ray's ASHA, asked directly: the rival of locus's early stopping in a simulation."""

from __future__ import annotations

from types import SimpleNamespace

from ray.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler


class Asha:
    """Ray's scheduler with given rungs. It compares values, of which the greatest is the best.

    `epochs`: of a whole run; `first`: the epoch of the first rung; `factor`: the best 1/factor continue.
    """

    def __init__(self, epochs: int, first: int, factor: int) -> None:
        self._scheduler = AsyncHyperBandScheduler(
            time_attr="epoch", metric="value", mode="max", max_t=epochs + 1, grace_period=first, reduction_factor=factor
        )  # max_t: at the last epoch itself it would stop the best ones, too
        self._trials: dict[int, SimpleNamespace] = {}

    def goes_on(self, number: int, epoch: int, value: float) -> bool:
        """Whether a trial continues after an epoch. Every epoch of every trial is to be told, in order."""
        if number not in self._trials:
            self._trials[number] = SimpleNamespace(trial_id=str(number))
            self._scheduler.on_trial_add(None, self._trials[number])
        result = {"epoch": epoch, "value": value}
        return bool(self._scheduler.on_trial_result(None, self._trials[number], result) == TrialScheduler.CONTINUE)
