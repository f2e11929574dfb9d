"""How a study is to be run, as against what it is: no order is part of a recipe, a key or a definition."""

from __future__ import annotations

from pydantic import Field

from trainables.spec import Spec


class RunOptions(Spec):
    """A user's options for one command.

    `home` and `tracking` say where (None: the defaults of service.home); `address`: "local" starts a Ray of our own,
    "auto" joins the cluster at hand. `adopt`: answers of older code count. Units: `hours` of wall-clock.
    """

    home: str | None = None
    tracking: str | None = None
    address: str = "local"
    hours: float | None = Field(default=None, gt=0, description="a positive number of hours")
    max_concurrent: int | None = Field(default=None, gt=0, description="a positive number of runs at once")
    threads: int = Field(default=1, gt=0, description="a positive number of threads a run")
    workers: int = Field(default=0, ge=0, description="a number of workers a run, 0 or more")
    adopt: bool = False
