"""The measurements of a run, and how it ended: a closed union of values, which is matched and never raised."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, field_validator

from trainables.spec import Spec, require

TOGETHER = "time/runs"
"""How many runs trained as one in an epoch, whose times are those of all of them; a run by itself lacks it."""


class Measurement(Spec):
    """The measurements of one epoch: named finite floats. Epochs count from 1.

    Names: `train/loss`, `val/accuracy` or `val/r2`, `time/epoch_s`, `memory/peak_gib`; with the last epoch
    `test/...`, and `test/accuracy_at_48` at another side of images (`at_image_size`); `val/accuracy_ema` of averaged
    weights (`of_ema`). `val/accuracy_after_20_epochs` where a cooldown at that length ends (`after_epochs`).
    """

    epoch: int = Field(ge=0, description="an epoch")
    values: dict[str, float] = Field(description="named finite numbers")

    @field_validator("values")
    @classmethod
    def _finite(cls, values: dict[str, float]) -> dict[str, float]:
        for name, value in values.items():
            require(math.isfinite(value), name, "finite", value)
        return values


def at_image_size(metric: str, side: int) -> str:
    """Returns a metric's name at another side of images. Units: pixels. (MLflow takes no `@` in a name.)"""
    return f"{metric}_at_{side}"


def after_epochs(metric: str, length: int) -> str:
    """Returns a metric's name at a length of training. Units: epochs."""
    return f"{metric}_after_{length}_epochs"


def of_ema(metric: str) -> str:
    """Returns a metric's name for the moving average of the weights."""
    return f"{metric}_ema"


class Completed(Spec):
    """The run reached its last epoch; the last measurement holds the final evaluation."""

    kind: Literal["completed"] = Field(default="completed", init=False)
    curve: tuple[Measurement, ...] = Field(min_length=1, strict=False)

    @property
    def final(self) -> dict[str, float]:
        return self.curve[-1].values


class Diverged(Spec):
    """NaN or infinity at an epoch; the curve holds the epochs before it. `reason` names what was not finite first."""

    kind: Literal["diverged"] = Field(default="diverged", init=False)
    epoch: int = Field(ge=0)
    curve: tuple[Measurement, ...] = Field(default=(), strict=False)
    reason: str = "a loss that is not finite"


class Stopped(Spec):
    """A study stopped the run at a rung, because others were better."""

    kind: Literal["stopped"] = Field(default="stopped", init=False)
    epoch: int = Field(ge=0)
    cutoff: float


class Failed(Spec):
    """An error that is no property of the recipe: a lost process, a full disk, a bug."""

    kind: Literal["failed"] = Field(default="failed", init=False)
    reason: str


Outcome = Annotated[Completed | Diverged | Stopped | Failed, Field(discriminator="kind")]
Answer = Annotated[Completed | Diverged, Field(discriminator="kind")]
"""The outcomes that are valid in every study: Completed and Diverged."""
