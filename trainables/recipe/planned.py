"""A run that travels, or is kept, with what its study was planned with."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from trainables.data import OwnData
from trainables.recipe.recipe import Run
from trainables.spec import Spec


class PlannedRun(Spec):
    """A run, and the key that it was planned with: a class of the user's own may find other files where it is read.

    `key`: empty where the recipe and the seed alone decide it. `fingerprint`: that of the images, as the key has it.
    """

    run: Run
    key: str = Field(default="", kw_only=True)
    fingerprint: str = Field(default="", kw_only=True)

    @model_validator(mode="after")
    def _keeps(self) -> Self:
        """The run keeps its key, and its images must be those of the key (`trainables.data.custom_torch`)."""
        if self.key and isinstance(self.run, Run):
            self.run.__dict__["key"] = self.key
            if isinstance(data := self.run.recipe.data, OwnData):
                data.__dict__["fingerprint"] = self.fingerprint
        return self


def as_planned(run: Run) -> dict[str, Any]:
    """Returns the fields of a `PlannedRun` of a run."""
    if not _reads_own(run):
        return {"run": run}
    return {"run": run, "key": run.key, "fingerprint": run.recipe.data.fingerprint}


def _reads_own(run: Run) -> bool:
    """Returns whether images of a run, or of one that it needs, come from a class of the user's own."""
    return isinstance(run.recipe.data, OwnData) or any(map(_reads_own, run.needs()))
