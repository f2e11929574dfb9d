"""A search: the points of a space, proposed one after another, of which the bad ones are stopped early."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from search_spaces.plans.grid import grid, without_points
from search_spaces.plans.tuning import Tuning
from search_spaces.roles import MOST_TRIALS, TRIALS
from search_spaces.space import Space, probes
from trainables.recipe import Recipe
from trainables.spec import Spec, SpecError, require

GRID_LIMIT = 10_000
"""How many points a grid may have: all are listed before the first one is tried."""

STARTUP_TRIALS = 5
"""So many trials, those that are tried first among them, have ended before TPE learns. Optuna's default, 10, is half of
a search of 20."""


class Halving(Spec):
    """Early stopping of points that cannot be among the best five any more, over epochs and over seeds.

    After one and two thirds of the epochs of a first seed the best 1/factor continue, and others that may still gain
    enough. Each further seed is trained only while the point's mean may still be one of the five highest.
    """

    factor: int = Field(default=3, ge=2, description="a whole number of 2 or more")


class Search(Spec):
    """A space, the points tried first (the paper's), how many trials, which sampler, and how bad trials are stopped.

    `sampler`: `tpe` learns from earlier trials; `random` does not, so it is the baseline; `grid` tries every
    combination of choices, integers and the `points` of real numbers, in an order that the study's id decides.
    `stop`: None where `optimizer.epochs` is searched, as points are compared after the same epochs.
    `rival`: as many random points again, stopped and confirmed in the same way; claims call the best of them `random`.
    """

    kind: Literal["search"] = Field(default="search", init=False)
    space: Space
    first: tuple[dict[str, Any], ...] = Field(default=(), strict=False, description="a list of {path: value}")
    trials: int = Field(default=20, gt=0, le=MOST_TRIALS, description=TRIALS)
    stop: Halving | None = None
    sampler: Literal["tpe", "random", "grid"] = Field(default="tpe", description="'tpe', 'random' or 'grid'")
    rival: bool = Field(default=False, description="true or false")

    noun: ClassVar[str] = "point"
    arms: ClassVar[dict[str, dict[str, Any]]] = {}
    axes: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {}
    parts: ClassVar[list[str]] = []
    tune: ClassVar[Tuning | None] = None
    race: ClassVar[bool] = False
    baseline: ClassVar[str] = ""
    baseline_words: ClassVar[str] = "the baseline"
    """What only an ablation has, a search has as nothing, so that nobody needs to ask which of the two a plan is."""
    chooses: ClassVar[bool] = True
    """Whether validation scores choose what is tested."""

    @property
    def size(self) -> int:
        """The number of trials that the plan asks for."""
        return self.trials

    def names(self) -> list[str]:
        """Returns what claims and published numbers may name: `best`, `first` and, with a rival, `random`."""
        return ["best", "first", "random"] if self.rival else ["best", "first"]

    def paths(self) -> list[str]:
        """Returns the paths in which the trials differ."""
        return list(dict.fromkeys(path for path, _ in self.space.every()))

    def whole(self, values: dict[str, Any]) -> dict[str, Any]:
        """Returns the values of a point with those that follow from them (`Space.carried`)."""
        return self.space.carried(values)

    def partners(self, names: Collection[str]) -> dict[str, str]:
        """Returns nothing: the points of a search have no baseline that they are compared with."""
        return {}

    def compared_with(self, name: str) -> str | None:
        """Returns None: the points of a search have no baseline."""
        return None

    def is_baseline(self, name: str) -> bool:
        """Returns False: the points of a search have no baseline."""
        return False

    @model_validator(mode="after")
    def _laid_out(self) -> Search:
        endless = without_points(self.space) if self.sampler == "grid" else []
        require(not (self.rival and self.sampler == "random"), "rival", "false where the sampler is random", True)
        require(not endless, "sampler", f"tpe or random where {', '.join(endless)} has no points", self.sampler)
        return self

    def resized(self, values: Mapping[str, Any]) -> Search:
        """Returns itself: a search has no arms that could have other values."""
        return self

    def counted(self, trials: int | None, study: str, *, stop: bool) -> Search:
        """Returns the search with another number of trials, if one is given. Without `stop` it stops no trial early."""
        points = self.trials if trials is None else trials
        return Search(**{**dict(self), "trials": points, "stop": self.stop if stop else None})

    def check_own_paths(self, study: str, paths: Iterable[str]) -> None:
        """Refuses nothing: `pinned` checks a user's own paths."""

    def looked_up(self, kind: str) -> Search:
        """Returns itself: the points of a search name no images."""
        return self

    def all_over(self, base: Recipe) -> list[tuple[str, dict[str, Any]]]:
        """Returns points all over the space, which have no names, the first ones before them.

        Raises: SpecError for a first point outside the space, and for a grid of too many points.
        """
        for point in self.first:
            self.space.require_point(base, point, "plan.first")
        if self.sampler == "grid":
            count = sum(1 for _ in islice(grid(self.space, base), GRID_LIMIT + 1))
            require(count <= GRID_LIMIT, "plan.space", f"of at most {GRID_LIMIT} grid points", "more")
        return [("", point) for point in (*self.first, *probes(self.space, base))]

    def require_one_length(self) -> None:
        """Refuses early stopping where runs differ in length: the same epoch is early in one and the last of another.

        This is asked of an edition and not of a search, because a budget may switch early stopping off, and a user may
        fix the epochs.
        """
        searched = any(path == "optimizer.epochs" for path, _ in self.space.every())
        if self.stop is not None and searched:
            raise SpecError(
                "plan.stop must be None where optimizer.epochs is searched, as early stopping compares points after "
                "the same epochs: give service.sweep(..., stop=False), Search(..., stop=None) or Budget(..., "
                "stop=False)"
            )

    def pinned(self, settings: dict[str, Any], study: str) -> Search:
        """Returns the search of what a user's own values leave open. Raises: SpecError if they leave nothing open."""
        space = self.space.pinned(settings)
        if space is None:
            paths = dict.fromkeys(path for path, _ in self.space.every())
            raise SpecError(f"{study} searches only {', '.join(paths)}, so --set leaves nothing to search")
        space.require_kept(settings, study)
        return Search(**{**dict(self), "space": space, "first": space.without(self.first, settings)})
