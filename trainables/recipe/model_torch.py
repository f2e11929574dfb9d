"""The model of a recipe."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from trainables.backbones import Size
from trainables.recipe.recipe import Recipe
from trainables.rng_torch import seeded, stream_seed

if TYPE_CHECKING:
    from trainables.backbones.backbone_torch import Host


def build_model(recipe: Recipe, size: Size | None = None) -> Host:
    """Returns the model of a recipe; `trainables.training.init.init_weights(model, seed)` sets its initial weights.

    `size`: for images of another size than the recipe's own.
    """
    spec = type(recipe.model)
    make = getattr(import_module(f"{spec.__module__}_torch"), f"Positioned{spec.__name__}")
    with seeded(stream_seed(0, "build")):  # timm and a user's modules draw from the global generators
        model: Host = make(recipe.model, size or recipe.data.size, recipe.data.outputs, recipe.encoding)
    return model
