"""The label of an axis over a path of a recipe, with the unit that the field's description names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from trainables.own import OwnSpec
from trainables.recipe import Recipe
from trainables.spec import Spec, SpecError

UNIT = re.compile(r"\bin (patches|pixels)\b|\((pixels) a side\)")


def axis_label(path: str, recipes: Iterable[Recipe]) -> str:
    """`encoding.gamma (patches)`; the path alone where it has no unit, or where the trials' units differ."""
    units = {unit(recipe, path) for recipe in recipes}
    (one,) = units if len(units) == 1 else ("",)
    return f"{path} ({one})" if one else path


def unit(recipe: Recipe, path: str) -> str:
    """The unit of a field, as its description names it; nothing where it names none or the recipe has no such field.

    A length in patches is one in grid widths where its encoding takes coordinates from 0 to 1.
    """
    node, _, name = path.rpartition(".")
    try:
        owner = recipe.get(node) if node else recipe
    except SpecError:
        return ""
    owner = owner.made() if isinstance(owner, OwnSpec) else owner
    field = type(owner).model_fields.get(name) if isinstance(owner, Spec) else None
    found = UNIT.search(field.description or "") if field else None
    said = (found[1] or found[2]) if found else ""
    return "grid widths" if said == "patches" and getattr(owner, "coordinates", "raw") == "unit" else said
