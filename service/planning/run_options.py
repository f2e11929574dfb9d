"""Holds the options of one command: where and how a study runs. They never change a recipe, a key or a definition."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, Self, TypedDict, TypeVar

from pydantic import BeforeValidator, Field, field_validator

from service.storage.home import has_options
from trainables.spec import Spec, require

WORKERS = "a number of workers a run, 0 or more, or the fewest (1 or more) and the most"


class RunOptions(Spec):
    """What a user may choose for one command.

    Where `home`, `tracking` or `experiment` (the last two of MLflow) is None, the default of `storage.home` holds.
    `storage` is the URI of a place that outlives this machine's disk, where copies go; a path becomes a URI. With the
    `address` "local" (or None) the command starts its own Ray; with "auto" it joins the cluster at hand. `download`
    fetches known data sets that are not there. The `device` "auto" takes GPUs if there are any. `compile` lets torch
    compile training steps. `deterministic` lets a GPU add up in one order. `grad_checkpointing` keeps only the inputs
    of each block while it trains. `workers` is the number of workers of a run, or the fewest and the most: each attempt
    takes as many as have room, so a run goes on without a node that is lost. `runs_per_gpu` is how many runs share a
    GPU; "auto" is as many as their predicted memory and the cores allow. `fuse` is how many runs that differ only in
    seeds, or in numbers of their encoding, are trained as one model.
    Units: `hours` of wall-clock, for the command; `run_hours`, for each run.
    """

    home: str | None = None
    tracking: str | None = None
    experiment: str | None = Field(
        default=None, min_length=1, max_length=250, description="the name of an MLflow experiment, of 1 to 250 letters"
    )
    storage: str | None = None
    address: Annotated[str, BeforeValidator(lambda address: "local" if address is None else address)] = "local"
    hours: float | None = Field(default=None, gt=0, description="a positive number of hours")
    run_hours: float | None = Field(default=None, gt=0, description="a positive number of hours a run")
    max_concurrent: int | None = Field(default=None, gt=0, description="a positive number of concurrent runs")
    threads: int = Field(default=1, gt=0, description="a positive number of threads a run")
    workers: int | tuple[int, int] = Field(default=0, description=WORKERS)
    loader_workers: int | None = Field(default=None, ge=0, description="a number of loader workers a run, or null")
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto, cpu or cuda")
    runs_per_gpu: int | Literal["auto"] = 1
    fuse: int = Field(default=1, gt=0, description="a positive number of runs that are trained as one model")
    compile: bool = False
    grad_checkpointing: bool = False
    deterministic: bool = False
    download: bool = False

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> Self:
        """Returns the options among a verb's arguments, which have the names and the defaults of all options."""
        return cls(**{name: arguments[name] for name in cls.model_fields})

    @property
    def elsewhere(self) -> bool:
        """Whether the study runs in another process than this one, on the cluster at `address`."""
        return self.address not in ("local", "auto")

    @property
    def most_workers(self) -> int:
        """The number of workers that a run has at most."""
        return self.workers if isinstance(self.workers, int) else self.workers[1]

    @property
    def min_workers(self) -> int | None:
        """The number of workers with which a run may begin or go on; None if it needs all of them."""
        return None if isinstance(self.workers, int) else self.workers[0]

    @field_validator("storage")
    @classmethod
    def _uri(cls, storage: str | None) -> str | None:
        if storage is None:
            return None
        if "://" in storage:
            plain = "a URI without options and credentials, which nodes have in their environment"
            require(not has_options(storage), "", plain, "some")
            return storage
        require(Path(storage).is_absolute(), "", "a URI such as s3://bucket/locus, or an absolute path", storage)
        return f"file://{storage}"  # fsspec takes a path as it is: no letter of it is quoted

    @field_validator("runs_per_gpu", mode="before")
    @classmethod
    def _positive(cls, runs: object) -> object:
        positive = isinstance(runs, int) and runs > 0
        require(positive or runs == "auto", "", "auto, or a positive number of runs a GPU", runs)
        return runs

    @field_validator("workers")
    @classmethod
    def _counts(cls, workers: int | tuple[int, int]) -> int | tuple[int, int]:
        legal = workers >= 0 if isinstance(workers, int) else 1 <= workers[0] < workers[1]
        require(legal, "", WORKERS, workers)
        return workers


class Options(TypedDict, total=False):
    """The types of `RunOptions`, for the verbs of Python, which take it as `**options: Unpack[Options]`."""

    home: str | None
    tracking: str | None
    experiment: str | None
    storage: str | None
    hours: float | None
    run_hours: float | None
    max_concurrent: int | None
    threads: int
    workers: int | tuple[int, int]
    loader_workers: int | None
    device: Literal["auto", "cpu", "cuda"]
    runs_per_gpu: int | Literal["auto"]
    fuse: int
    compile: bool
    grad_checkpointing: bool
    deterministic: bool
    download: bool


class OptionsAndAddress(Options, total=False):
    """The types of `Options` and of `address`, for verbs that take an address."""

    address: str


P = ParamSpec("P")
R = TypeVar("R")


def takes_options(verb: Callable[P, R]) -> Callable[P, R]:
    """Returns the verb with all options in its signature, for `help` and completion. Other names are a TypeError."""
    signature = inspect.signature(verb)
    named = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.annotation)
        for name, field in RunOptions.model_fields.items()
        if name not in signature.parameters
    ]
    spelled = signature.replace(parameters=[*named, *options])

    @functools.wraps(verb)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        spelled.bind(*args, **options)
        return verb(*args, **options)

    checked.__signature__ = spelled  # type: ignore[attr-defined]
    return checked
