"""The same search for every arm of an ablation, before the arms are compared.

Training settings that were chosen for one arm favor it. So each arm may get its own, by a search that is the same for
all: one space, one number of trials, one way to propose them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Literal

from pydantic import Field, model_validator

from search_spaces.leaves import is_of_data
from search_spaces.plans.grid import grid, is_finite, without_points
from search_spaces.roles import MOST_SEEDS, MOST_TRIALS, SEEDS, TRIALS
from search_spaces.space import Space, probes, require_base_kept
from search_spaces.words import quoted
from trainables.recipe import Recipe
from trainables.spec import Spec, SpecError, digest, require

PROBED = 4
"""How many random points of the space are put on each arm when a study is made; the ends of all domains come beside."""


class Tuning(Spec):
    """How each arm is tuned: so many trials in a space, and the trial with the highest validation score is chosen.

    `first`: points that every arm tries before those of the sampler. `seeds`: how many seeds a trial has, which are
    other ones than those on which arms are compared. `sampler`: `random` and `grid` try the same points for every arm,
    so no arm is luckier; `tpe` learns from the arm's own earlier trials, after five random ones. `length`: whether a
    trial ends at the shortest or the longest of the lengths at which arms are measured (`optimizer.lengths`).
    Source: Ali et al. 2021 (PyKEEN's ablation studies). Differs: arms share their points where the sampler allows it.
    """

    space: Space
    trials: int = Field(gt=0, le=MOST_TRIALS, description=TRIALS)
    first: tuple[dict[str, Any], ...] = Field(default=(), strict=False, description="a list of {path: value}")
    seeds: int = Field(default=1, gt=0, le=MOST_SEEDS, description=SEEDS)
    sampler: Literal["random", "tpe", "grid"] = Field(default="random", description="'random', 'tpe' or 'grid'")
    length: Literal["longest", "shortest"] = Field(default="longest", description="'longest' or 'shortest'")

    @model_validator(mode="after")
    def _fits(self) -> Tuning:
        endless = without_points(self.space) if self.sampler == "grid" else []
        require(not endless, "sampler", f"random or tpe where {', '.join(endless)} has no points", self.sampler)
        data = [path for path, _ in self.space.every() if is_of_data(path)]
        require(not data, "space", "of paths outside data, for arms are compared on the same images", ", ".join(data))
        same = len({digest(point) for point in self.first}) < len(self.first)
        require(not same, "first", "without doubles", list(self.first))
        return self

    @property
    def paths(self) -> list[str]:
        """The paths that are tuned."""
        return list(dict.fromkeys(path for path, _ in self.space.every()))

    def put_on(self, arm: Mapping[str, Any], point: dict[str, Any]) -> dict[str, Any]:
        """Returns the values of an arm with those of a point, which replace the arm's own at the same paths."""
        return {**arm, **self.space.carried(point)}

    def pinned(self, values: Mapping[str, Any], study: str) -> Tuning:
        """Returns the tuning without paths that a user has set. Raises: SpecError if no path is left."""
        space = self.space.pinned(values)
        if space is None:
            raise SpecError(f"{study} tunes only {', '.join(self.paths)}, so --set leaves nothing to tune")
        space.require_kept(values, study)
        return Tuning(**{**dict(self), "space": space, "first": space.without(self.first, values)})


def check_tuning(tune: Tuning, base: Recipe, arms: Mapping[str, Mapping[str, Any]]) -> None:
    """Checks points all over the space with every arm.

    Raises: SpecError if an arm lacks a path, where a point makes two arms one recipe or takes values of the base away,
    and where there are too few points.
    """
    recipes = {name: base.variant(values) for name, values in arms.items()}
    for name, recipe in recipes.items():
        for point in tune.first:
            tune.space.require_point(recipe, point, "plan.tune.first")
        points = [*tune.first, *probes(tune.space, recipe, PROBED)]
        try:
            tuned = [base.variant(tune.put_on(arms[name], point)) for point in points]
        except SpecError as error:
            raise SpecError(
                f"tune: arm {quoted(name)}: {error}; every arm is tuned over the same space, so each point of it must "
                "build a recipe with each arm"
            ) from None
        for point, with_point in zip(points, tuned, strict=True):
            require_base_kept(recipe, point, with_point)
        _require_enough(tune, recipe)
    _require_different(tune, base, arms, recipes)


def _require_enough(tune: Tuning, recipe: Recipe) -> None:
    """Refuses more trials than the space has points: the arms would have fewer than the study says."""
    if tune.sampler == "grid" or is_finite(tune.space):
        count = sum(1 for _ in islice(grid(tune.space, recipe), tune.trials))
        if count < tune.trials:
            raise SpecError(f"tune.trials must be at most {count}, as the space has no more points, got {tune.trials}")


def _require_different(
    tune: Tuning, base: Recipe, arms: Mapping[str, Mapping[str, Any]], recipes: Mapping[str, Recipe]
) -> None:
    """Refuses a space that holds what two arms differ in: the same point would make them one recipe."""
    first = next(iter(recipes))
    point = next(probes(tune.space, recipes[first], 1))
    seen: dict[str, str] = {}
    for name, values in arms.items():
        other = seen.setdefault(digest(base.variant(tune.put_on(values, point)).identity()), name)
        if other != name and recipes[other] != recipes[name]:
            raise SpecError(
                f"tune.space must leave out what arms differ in: with the same values of {', '.join(tune.paths)} the "
                f"arms {quoted(other)} and {quoted(name)} are one recipe"
            )
