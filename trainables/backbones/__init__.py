"""Which file computes which trunk: a line here, a spec in `model_spec.py` or beside it, a class in the file.

The class is a `trainables.host.Host`, made as `Class(spec, size, outputs, encoding)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from trainables.model_spec import Size
from trainables.recipe import Recipe

if TYPE_CHECKING:
    from trainables.host import Host

BACKBONES: dict[str, str] = {
    "vit": "vit:PositionedViT",
    "cait": "cait:PositionedCaiT",
    "convit": "convit:PositionedConViT",
    "volo": "volo:PositionedVOLO",
    "tnt": "tnt:PositionedTNT",
    "pvt_v2": "pvt_v2:PositionedPVTv2",
    "swin": "swin:PositionedSwin",
    "twins": "twins:PositionedTwins",
}
"""By kind: the file in this folder (without .py) and the class in it."""


def build_model(recipe: Recipe, size: Size | None = None) -> Host:
    """The model of a recipe; `trainables.initial.draw(model, seed)` gives it its initial weights.

    `size`: for images of another size than the recipe's own.
    """
    import torch

    file, _, name = BACKBONES[recipe.model.kind].partition(":")
    make = getattr(import_module(f"trainables.backbones.{file}"), name)
    with torch.random.fork_rng(devices=[]):  # timm draws from the global generator, which is not ours to move
        model: Host = make(recipe.model, size or recipe.data.size, recipe.data.outputs, recipe.encoding)
    return model
