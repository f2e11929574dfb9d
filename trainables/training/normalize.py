"""What a model sees of pixels from 0 to 1: themselves, or each channel with mean 0 and deviation 1."""

from __future__ import annotations

import timm
import torch
from torch import Tensor, nn

from trainables.data import MeanStd
from trainables.recipe import FromTimm, Recipe
from trainables.spec import SpecError


class Normalize(nn.Module):
    """Images with each channel minus its mean, divided by its standard deviation. Shapes: (B, C, R, S) to the same."""

    def __init__(self, spec: MeanStd, like: Tensor) -> None:
        super().__init__()
        self.mean, self.std = (like.new_tensor(numbers)[:, None, None] for numbers in (spec.mean, spec.std))

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


def normalizer(recipe: Recipe, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """Returns what comes between the pixels and the model of a recipe. Raises: SpecError as `pixel_statistics` does."""
    spec = pixel_statistics(recipe)
    return nn.Identity() if spec is None else Normalize(spec, torch.empty(0, device=device, dtype=dtype))


def pixel_statistics(recipe: Recipe) -> MeanStd | None:
    """Returns the mean and std of a recipe's pixels: given ones, those that timm names for its weights, or none.

    Raises: SpecError if timm knows no such model, or one for images of other channels.
    """
    normalize = recipe.normalize
    if not isinstance(normalize, FromTimm):
        return normalize
    config = timm.models.get_pretrained_cfg(normalize.name)
    if config is None:
        raise SpecError(f"init.name must be a model that timm knows, got {normalize.name!r}")
    channels = recipe.data.size[0]
    if len(config.mean) != channels:
        must = f"none or mean_std for images of {channels} channels, because timm has {len(config.mean)}"
        raise SpecError(f"data.normalize.kind must be {must}, got {recipe.data.normalize.kind!r}")
    return MeanStd(tuple(config.mean), tuple(config.std))
