"""Studies that are written in a call: a sweep of a space, an ablation of arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from search_spaces.fit import kept_form
from search_spaces.leaves import leaves
from search_spaces.space import Domain, Space
from search_spaces.study import Ablation, Halving, Score, Search, Study, Tuning
from service.api import run
from service.own_images import Images, check_sendable, image_values
from service.planning.run_options import RunOptions
from trainables.own import carry
from trainables.recipe import Recipe
from trainables.spec import SpecError, digest

if TYPE_CHECKING:
    from service.callbacks import Callback
    from service.results import Result
    from service.terminal.live import Progress

FIRST_TRIALS = 20
"""How many points an ad-hoc sweep tries by default."""


def sweep(
    base: Mapping[str, Any] | Recipe,
    space: dict[str, Domain],
    *,
    trials: int = FIRST_TRIALS,
    seeds: int = 5,
    name: str = "",
    question: str = "Which values are best?",
    first: tuple[dict[str, Any], ...] = (),
    stop: bool = True,
    sampler: Literal["tpe", "random", "grid"] = "tpe",
    data: Images = "",
    preset: str | None = None,
    edition: str = "",
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    home: str | None = None,
    tracking: str | None = None,
    experiment: str | None = None,
    storage: str | None = None,
    address: str = "local",
    hours: float | None = None,
    run_hours: float | None = None,
    max_concurrent: int | None = None,
    threads: int = 1,
    workers: int | tuple[int, int] = 0,
    loader_workers: int | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    runs_per_gpu: int | Literal["auto"] = 1,
    fuse: int = 1,
    compile: bool = False,
    grad_checkpointing: bool = False,
    deterministic: bool = False,
    download: bool = False,
) -> Result:
    """Searches a space. Without a name the study is `sweep-<digest>`: the same call resumes it.

    `first`: points that are tried first; `stop`: whether points may be stopped early.
    `base`: {path: value}, or a recipe, such as `result.best.recipe`. `question`: the title of its page. `data` and all
    arguments from `preset` on: as `run` has them.
    """
    options = RunOptions.among(locals())
    halving = Halving() if stop else None
    plan = Search(space=Space(space), first=first, trials=trials, stop=halving, sampler=sampler)
    study = _adhoc(_base(base, data, options), plan, name, question, seeds)
    return run(study, preset=preset, edition=edition, progress=progress, callbacks=callbacks, **dict(options))


def ablate(
    arms: dict[str, dict[str, Any]] | None = None,
    *,
    baseline: str,
    axes: dict[str, dict[str, dict[str, Any]]] | None = None,
    without: Sequence[dict[str, str]] = (),
    tune: Tuning | None = None,
    base: Mapping[str, Any] | Recipe | None = None,
    seeds: int = 5,
    name: str = "",
    question: str = "Which arm is best?",
    data: Images = "",
    preset: str | None = None,
    edition: str = "",
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    home: str | None = None,
    tracking: str | None = None,
    experiment: str | None = None,
    storage: str | None = None,
    address: str = "local",
    hours: float | None = None,
    run_hours: float | None = None,
    max_concurrent: int | None = None,
    threads: int = 1,
    workers: int | tuple[int, int] = 0,
    loader_workers: int | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    runs_per_gpu: int | Literal["auto"] = 1,
    fuse: int = 1,
    compile: bool = False,
    grad_checkpointing: bool = False,
    deterministic: bool = False,
    download: bool = False,
) -> Result:
    """Compares named arms with a baseline, paired by seed; or all combinations of axes, as `Ablation` has them.

    `tune`: each arm is tuned first, by the same search. All other arguments: as `sweep` has them.
    """
    options = RunOptions.among(locals())
    plan = Ablation(arms=arms or {}, baseline=baseline, axes=axes or {}, without=tuple(without), tune=tune)
    study = _adhoc(_base(base or {}, data, options), plan, name, question, seeds)
    return run(study, preset=preset, edition=edition, progress=progress, callbacks=callbacks, **dict(options))


def _base(base: Mapping[str, Any] | Recipe, data: Images, options: RunOptions) -> Recipe:
    """Returns the base recipe of a call. Raises: SpecError if it names its images twice."""
    if not isinstance(base, Mapping | Recipe):
        raise SpecError(f"base must be {{path: value}} or a Recipe, got {base!r}")
    if options.elsewhere:
        check_sendable(data)
    recipe, values = (base, {}) if isinstance(base, Recipe) else (Recipe(), carry(base))
    images = image_values(data, options.home, values, "base")
    return recipe.put(images | kept_form(images | leaves(values), recipe) | values)


def _adhoc(base: Recipe, plan: Search | Ablation, name: str, question: str, seeds: int) -> Study:
    if not name:
        identity = plan.identity()
        identity.pop("trials", None)
        kind = "sweep" if isinstance(plan, Search) else "ablation"
        name = f"{kind}-{digest([base.identity(), identity], 8)}"
    score = Score(f"val/{base.data.reported}")
    return Study(name=name, question=question, base=base, plan=plan, seeds=seeds, score=score)
