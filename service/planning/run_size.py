"""How much each run of a study trains on, in words."""

from __future__ import annotations

from collections.abc import Iterable

from trainables.recipe import Recipe


def run_size(recipes: Iterable[Recipe]) -> str:
    """The epochs and images of a run; where recipes differ, the least and the most."""
    recipes = list(recipes)
    counts = [recipe.data.image_counts for recipe in recipes]
    epochs = _range(recipe.optimizer.epochs for recipe in recipes)
    train, validation, test = (_range(getattr(one, name) for one in counts) for name in ("train", "validation", "test"))
    word = "epoch" if epochs == "1" else "epochs"
    return f"each run: {epochs} {word} of {train} training images; {validation} validation and {test} test images"


def _range(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"
