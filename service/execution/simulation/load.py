"""How busy each part of the service is in a simulated study."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.execution.simulation.constants import MLFLOW_ROW_S
from service.execution.simulation.engine import Clock


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
    """What happened between two moments."""
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
    """A clock's state, which later events do not change."""
    return replace(clock, **{name: replace(getattr(clock, name)) for name in ("proposals", "decisions", "tune")})
