"""Tries the recipes of a study before anything is spent: each is built, and computes one step on two images."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import trainables
from search_spaces.study import Ablation, Edition
from service.planning.runs_ahead import known_trials
from trainables.encodings import parts_of
from trainables.kept import keep, kept, seen
from trainables.own import OwnSpec
from trainables.recipe import Recipe
from trainables.spec import LocusError, digest


def try_own(edition: Edition, data: Path) -> list[str]:
    """Tries the recipes with code of a user's own, as `try_recipes` does; nothing if torch is not installed.

    What passed is kept, so that the next plan of the same code imports no torch.
    """
    try:
        return [*try_recipes(edition, data, own_only=True)]
    except ModuleNotFoundError as error:  # of a package that is not installed, which `version` looks for, too
        if error.name not in ("torch", "timm"):
            raise
        return []


def try_recipes(edition: Edition, data: Path, *, own_only: bool = False) -> Iterator[str]:
    """Tries each arm, or the base and the first points of a search, and those that they start from.

    Yields what looks odd, a sentence each. Raises: LocusError that names the arm, and the user's own file and line.
    """
    tried: set[str] = set()
    for name, recipe in _recipes(edition):
        key = recipe.model_dump_json()
        if key in tried or (own_only and not _has_own_code(recipe)):
            continue
        tried.add(key)
        try:
            remarks = _kept_or_tried(recipe, data) if own_only else _tried(recipe, data)
        except LocusError as error:
            raise LocusError(f"{name}: {error}") from None
        yield from (f"{name}: {remark}" for remark in remarks)


def _tried(recipe: Recipe, data: Path) -> list[str]:
    from trainables.launch.trial_step import try_step  # torch, which a laptop that only submits has not

    return try_step(recipe, data)


def _kept_or_tried(recipe: Recipe, data: Path) -> list[str]:
    """What was odd in a recipe when it was tried, now or by an earlier command with the same data."""
    name = f"tried-{digest([recipe.model_dump_json(), recipe.data.fingerprint], 64)}.json"
    mark = "\n".join([*(version(one) for one in ("torch", "timm")), seen(Path(str(trainables.__file__)).parent)])
    found: list[str] | None = kept(name, mark)
    if found is None:
        found = _tried(recipe, data)
        keep(name, mark, found)
    return found


def _recipes(edition: Edition) -> Iterator[tuple[str, Recipe]]:
    """The recipes that can be known before a search begins, by the words for each; parents come first."""
    arms = isinstance(edition.study.plan, Ablation)
    trials = known_trials(edition)
    found = [(f"arm {one.name!r}" if arms else f"point {one.name}", one.recipe) for one in trials]
    for name, recipe in found or [("the base", edition.study.base)]:
        for use, parent in recipe.parents.items():
            yield f"{name}, its {'teacher' if use == 'teacher' else 'parent'}", parent
        yield name, recipe


def _has_own_code(recipe: Recipe) -> bool:
    return any(isinstance(part, OwnSpec) for part in (recipe.data, *parts_of(recipe.encoding)))
