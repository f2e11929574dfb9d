"""A trial's parameters in MLflow: what it is, what varies in its study, and what its recipe sets.

MLflow's parameters cannot change, so whatever may grow, such as the number of seeds, is a tag.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search_spaces.roles import POINTS, Role
from search_spaces.study import Ablation, Edition, Trial
from search_spaces.words import setting_words, value_words, without_sources
from trainables.recipe import FromTrial, Recipe
from trainables.recipe.cost import estimate_cost
from trainables.spec import SpecError

ALWAYS = ("data.kind", "model.kind", "optimizer.lr", "optimizer.epochs", "optimizer.batch_size")
"""Paths that every trial shows, so that MLflow can filter and group by them over several studies."""
LONGEST = 500
"""The greatest length of a value. Units: letters."""


def title(edition: Edition, trial: Trial) -> str:
    """The name of a trial in MLflow: `#07 gamma=2.31`, an arm's name, `c7 gamma=2.31`, `t2.7 ...`, `p1 ...`."""
    if trial.role == "trial":
        return trial.name if isinstance(edition.study.plan, Ablation) else f"#{trial.number:02d} {trial.name}"
    return f"{trial.label} {trial.name}"


def role(edition: Edition, trial: Trial) -> str:
    """What a trial is for: an arm, a point of a search or a random one, a confirmation of it, tuning, or a parent."""
    names: dict[Role, str] = {"rival": "random point", "rival_confirmation": "random confirmation"}
    if trial.role == "trial":
        return "arm" if isinstance(edition.study.plan, Ablation) else "point"
    return names.get(trial.role, trial.role)


def is_point(edition: Edition, trial: Trial) -> bool:
    """Whether a trial is a point of a search or of a tuning: its test scores are not looked at."""
    if trial.role == "tuning":
        return True
    return trial.role in POINTS and not isinstance(edition.study.plan, Ablation)


def params(edition: Edition, trial: Trial) -> dict[str, str]:
    """Everything that tells a trial from others of its study and of its experiment."""
    recipe = trial.recipe
    found = {
        "trial": title(edition, trial),
        "role": role(edition, trial),
        "budget": edition.budget + edition.mark,
        "data.task": getattr(recipe.data, "task", recipe.data.kind),
    }
    weight = estimate_cost(recipe)
    counts = {"parameters": str(weight.parameters), "parameters.learnt": str(weight.learnt)}
    every = _set(recipe) | found | varied(edition, trial) | {"encoding.kind": recipe.encoding.label} | counts
    return {path: value if len(value) <= LONGEST else f"{value[:LONGEST]} ..." for path, value in every.items()}


def varied(edition: Edition, trial: Trial) -> dict[str, str]:
    """What a trial has at the paths in which the trials of its study differ."""
    found = {}
    for path in edition.study.paths():
        try:
            found[path] = value_words(trial.recipe.get(path))
        except SpecError:  # a path of another kind's; or a model's name, in place of which the recipe has its numbers
            if path in trial.values:
                found[path] = value_words(trial.values[path])
    return found


def _set(recipe: Recipe) -> dict[str, str]:
    """What a recipe sets to another value than the default, and `ALWAYS`."""
    default = {path: value_words(value) for path, value in _leaves(Recipe().identity())}
    values = without_sources(recipe.identity())
    for node, other in (("init", recipe.init), ("teacher", recipe.teacher)):
        if node in values and "values" in values[node]:  # a whole recipe, of which what was written is enough
            written = other.values if isinstance(other, FromTrial) else getattr(other, "values", {})
            values[node] = {**values[node], "values": ", ".join(setting_words(written)) or "none"}
    found = {path: value_words(value) for path, value in _leaves(values)}
    changed = {path: value for path, value in found.items() if default.get(path) != value}
    return {path: value_words(recipe.get(path)) for path in ALWAYS} | changed


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every path of plain values with its value; a list of nodes has a number for each."""
    if isinstance(value, list | tuple) and any(isinstance(item, dict) for item in value):
        value = {str(number): item for number, item in enumerate(value)}
    if not isinstance(value, dict):
        yield path, value
        return
    for name, item in value.items():
        yield from _leaves(item, f"{path}.{name}" if path else str(name))
