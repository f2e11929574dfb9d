"""The arithmetic of a run, counted by torch on tensors that have shapes and no numbers, so no memory is needed."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from trainables.recipe.cost import training_operations
from trainables.recipe.model_torch import build_model
from trainables.recipe.recipe import Recipe
from trainables.spec import digest

_COUNTED: dict[str, int] = {}
"""The operations of each model that this process has counted; recipes that differ elsewhere share them.

A key includes the source of one's own encoding. So the count is made again when that source changes.
"""


def training_flops(recipe: Recipe) -> int:
    """Counts the floating-point operations of a run, as `training_operations` has it.

    Counted are matrix products, convolutions and attention; a multiplication and an addition are two operations.
    """
    return int(training_operations(recipe, forward_flops))


def forward_flops(recipe: Recipe, side: int | None = None) -> int:
    """Counts the floating-point operations of a forward pass of one image.

    `side`: of another size than the recipe's own.

    Units: pixels.
    """
    size = recipe.data.size if side is None else recipe.size_at(side)
    key = digest([recipe.model.plain(), recipe.encoding.plain(), size, recipe.data.outputs])
    if key not in _COUNTED:
        with torch.device("meta"):
            model = build_model(recipe, size).eval().requires_grad_(False)
            with FlopCounterMode(display=False) as counter:
                model(torch.empty(1, *size))
        _COUNTED[key] = int(counter.get_total_flops())
    return _COUNTED[key]
