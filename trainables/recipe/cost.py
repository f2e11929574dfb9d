"""How heavy a run is: parameters and memory by arithmetic alone, for the plan; neither torch nor timm is needed."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.encodings import ReservedChannels
from trainables.recipe.recipe import Recipe

PROCESS_BYTES = 800 * 2**20
"""What a worker holds before it trains: Python, torch, timm (measured on a CPU: 0.7 GiB after the imports)."""


@dataclass(frozen=True)
class Weight:
    """Parameters of a model, those of them that learn, and the memory of its training.

    Units: bytes, within a factor of about 1.5.
    """

    parameters: int
    learnt: int
    memory_bytes: int


def weigh(recipe: Recipe) -> Weight:
    """The weight of a recipe's run. An encoding of one's own that does not count its parameters counts for nothing.

    Memory: the process, the data as bytes, each parameter four times (value, gradient, two moments), and the
    activations that one batch keeps for its gradient.
    """
    backbone = backbone_parameters(recipe)
    parameters = backbone + position_parameters(recipe)
    learnt = sum(recipe.encoding.trainable_parameters(shape) for shape in recipe.shapes) + (
        backbone if recipe.trainable == "all" else 0
    )
    number = 8 if recipe.optimizer.precision == "float64" else 4
    channels, rows, columns = recipe.data.size
    images = (recipe.data.train_size + recipe.data.val_size + recipe.data.test_size) * channels * rows * columns
    kept = recipe.optimizer.batch_size * recipe.model.saved_activations(recipe.data.size, recipe.encoding.saved_pairs)
    return Weight(parameters, learnt, PROCESS_BYTES + images + number * (4 * parameters + kept))


def position_parameters(recipe: Recipe) -> int:
    """The parameters of the encoding, in all stages of the backbone."""
    return sum(recipe.encoding.parameters(shape) for shape in recipe.shapes)


def backbone_parameters(recipe: Recipe) -> int:
    """The parameters of the backbone without its encoding, and without the channels that position takes."""
    reserved = sum((recipe.encoding.reserved(shape.widths) for shape in recipe.shapes), ReservedChannels())
    return recipe.model.parameters(recipe.data.size, recipe.data.outputs, reserved)
