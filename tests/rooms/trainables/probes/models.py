"""Small models in float64 whose weights are not small, for what probes see of them."""

from __future__ import annotations

import torch

from trainables.backbones.vit_torch import PositionedViT
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.training.init import init_weights

SMALL = {"data.image_size": 24, "model.patch_size": 8, "model.embed_dim": 16, "model.num_heads": 2, "model.depth": 2}
HEADS = {"kind": "add", "places": ["query", "key"]}


def recipe(**values) -> Recipe:
    return Recipe().put(SMALL | {name.replace("__", "."): value for name, value in values.items()})


def model(found: Recipe, seed: int = 0) -> PositionedViT:
    """A model in float64 whose weights, encoding included, are not small."""
    made = build_model(found)
    init_weights(made, seed)
    made = made.double().eval()
    stream = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in made.parameters():
            value += 0.3 * torch.randn(value.shape, generator=stream, dtype=value.dtype)
    return made


def pictures(found: Recipe, count: int = 3) -> torch.Tensor:
    return torch.rand(count, *found.data.size, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
