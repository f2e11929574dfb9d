"""Studies that are written in a call: a sweep of a space, an ablation of arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from search_spaces.space import Domain, Space
from search_spaces.study import Ablation, Halving, Score, Search, Study, Tuning
from service.api import run
from trainables.own import carry
from trainables.recipe import Recipe
from trainables.spec import SpecError, digest

if TYPE_CHECKING:
    from service.results import Result

FIRST_TRIALS = 20
"""How many points an ad-hoc sweep tries by default."""


def sweep(
    base: dict[str, Any],
    space: dict[str, Domain],
    *,
    trials: int = FIRST_TRIALS,
    seeds: int = 5,
    name: str = "",
    first: tuple[dict[str, Any], ...] = (),
    stop: bool = True,
    sampler: Literal["tpe", "random", "grid"] = "tpe",
    **options: Any,
) -> Result:
    """Searches a space. Without a name the study is `sweep-<digest>`: the same call resumes it."""
    halving = Halving() if stop else None
    plan = Search(space=Space(space), first=first, trials=trials, stop=halving, sampler=sampler)
    return run(_adhoc(base, plan, name or "sweep", seeds, named=bool(name)), **options)


def ablate(
    arms: dict[str, dict[str, Any]] | None = None,
    *,
    baseline: str,
    axes: dict[str, dict[str, dict[str, Any]]] | None = None,
    without: Sequence[dict[str, str]] = (),
    tune: Tuning | None = None,
    base: dict[str, Any] | None = None,
    seeds: int = 5,
    name: str = "",
    **options: Any,
) -> Result:
    """Compares named arms with a baseline, paired by seed; or all combinations of axes, as `Ablation` has them.

    `tune`: each arm is tuned first, by the same search.
    """
    plan = Ablation(arms=arms or {}, baseline=baseline, axes=axes or {}, without=tuple(without), tune=tune)
    return run(_adhoc(base or {}, plan, name or "ablation", seeds, named=bool(name)), **options)


def _adhoc(base: dict[str, Any], plan: Search | Ablation, name: str, seeds: int, *, named: bool) -> Study:
    if not isinstance(base, Mapping):
        raise SpecError(f"base must be {{path: value}}, got {base!r}")
    recipe = Recipe().put(carry(base))
    if not named:
        said = plan.identity()
        said.pop("trials", None)
        name = f"{name}-{digest([recipe.identity(), said], 8)}"
    words = "Which values are best?" if isinstance(plan, Search) else "Which arm is best?"
    score = Score(f"val/{recipe.data.reported}")
    return Study(name=name, question=words, base=recipe, plan=plan, seeds=seeds, score=score)
