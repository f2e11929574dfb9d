"""The description of a job that crosses to a worker's process: one run, its folder, its placement. Plain values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import Field

from trainables.recipe import Use
from trainables.recipe.planned import PlannedRun
from trainables.recipe.revisions import Code


class Job(PlannedRun):
    """One attempt at one run."""

    code: Code
    """The code that the study was planned with; the worker trains with no other."""
    label: str
    attempt: int
    folder: str
    """The only folder the worker writes; it may hold an earlier attempt's checkpoint."""
    parents: dict[Use, str] = Field(default_factory=dict)
    """The files of the parents' weights, by their use."""
    data: str | None = None
    """The folder of known data sets and of decoded images."""
    device: str = "cpu"
    threads: int = 1
    workers: int = 0
    min_workers: int | None = None
    loader_workers: int = 0
    compile: bool = False
    grad_checkpointing: bool = False
    deterministic: bool = False
    runs_per_gpu: int = 1
    """How many runs share its GPU: each may fill its part of the memory, and no part of another's."""
    fused: int = 1
    """How many runs are trained as one model with it, itself counted."""
    worker_bytes: int | None = None
    """The memory that each worker of a group asks for on its node."""
    more_parts: int = 1
    """A batch is computed in so many times the parts of its recipe, because the memory of a GPU was short."""
    cwd: str = ""
    """The working folder of the driver."""

    @classmethod
    def received(cls, values: Mapping[str, Any]) -> Job:
        """Returns a job that came to this process. Relative paths in a user's file mean what they meant before."""
        enter(values["cwd"])
        return cls.read(values)

    @staticmethod
    def working_folder() -> str:
        """Returns the working folder of this process; empty if it was removed."""
        with suppress(OSError):
            return os.getcwd()
        return ""


def enter(folder: str) -> None:
    """Makes a folder the working folder. On a node that has no such folder nothing changes."""
    with suppress(OSError):
        os.chdir(folder)
