"""The arithmetic of a run, counted by torch on tensors that have shapes and no numbers, so it takes no memory."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from trainables.backbones import Size
from trainables.recipe.cost import auxiliary_flops, training_operations
from trainables.recipe.losses import DRLoc
from trainables.recipe.model_torch import build_model
from trainables.recipe.recipe import Recipe
from trainables.spec import digest

_COUNTED: dict[str, int] = {}
"""The operations of each model that this process has counted; recipes that differ elsewhere share them.

A key includes the source of one's own encoding. So the count is made again when that source changes.
"""


def training_flops(recipe: Recipe) -> int:
    """Counts the floating-point operations of a run: of matrix products, convolutions and attention.

    A multiplication and an addition are two operations.
    """
    return int(training_operations(recipe, forward_flops, learning_flops))


def learning_flops(recipe: Recipe) -> int:
    """Counts the floating-point operations of a forward pass of one image that is learned from.

    Dense relative localization reads the tokens of all patches, where the heads may read fewer, and has an MLP.
    """
    return _counted(recipe, recipe.data.size, isinstance(recipe.auxiliary, DRLoc)) + auxiliary_flops(recipe)


def forward_flops(recipe: Recipe, side: int | None = None) -> int:
    """Counts the floating-point operations of a forward pass of one image. `side`: of another size, in pixels."""
    return _counted(recipe, recipe.data.size if side is None else recipe.size_at(side), False)


def _counted(recipe: Recipe, size: Size, whole: bool) -> int:
    """Counts the floating-point operations of the model for one image. `whole`: it computes the tokens of all patches.

    The model has shapes alone; one whose tables follow from numbers has all its numbers at first.
    """
    key = digest([recipe.model.plain(), recipe.encoding.plain(), size, recipe.data.outputs, whole])
    if key not in _COUNTED:
        try:
            with torch.device("meta"):
                model = build_model(recipe, size)
        except (RuntimeError, TypeError):  # a table cannot be computed from shapes, as ranks of distances
            model = build_model(recipe, size).to("meta")
        model = model.eval().requires_grad_(False)
        with torch.device("meta"):
            image = torch.empty(1, *size)
            with FlopCounterMode(display=False) as counter:
                model.output(model.features(image) if whole else model.head_tokens(image))
        _COUNTED[key] = int(counter.get_total_flops())
    return _COUNTED[key]
