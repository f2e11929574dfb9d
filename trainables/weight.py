"""How heavy a run is: parameters and memory by arithmetic alone, for the plan; neither torch nor timm is needed."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.recipe import Recipe

PROCESS_BYTES = 800 * 2**20
"""What a worker holds before it trains: Python, torch, timm (measured on a CPU: 0.7 GiB after the imports)."""


@dataclass(frozen=True)
class Weight:
    """Parameters of a model, and the memory of its training. Units: bytes, within a factor of about 1.5."""

    parameters: int
    memory_bytes: int


def weigh(recipe: Recipe) -> Weight:
    """The weight of a recipe's run. An encoding of one's own that does not count its parameters counts for nothing.

    Memory: the process, the data as bytes, each parameter four times (value, gradient, two moments), and the
    activations that one batch keeps for its gradient.
    """
    parameters = trunk_parameters(recipe) + recipe.encoding.parameters(recipe.shape)
    number = 8 if recipe.optimiser.precision == "float64" else 4
    channels, rows, columns = recipe.data.size
    images = (recipe.data.train + recipe.data.validation + recipe.data.test) * channels * rows * columns
    kept = recipe.optimiser.batch * recipe.shape.tokens * _kept_per_token(recipe)
    return Weight(parameters, PROCESS_BYTES + images + number * (4 * parameters + kept))


def trunk_parameters(recipe: Recipe) -> int:
    """The parameters of the ViT without its encoding, and without the channels that position takes from the content."""
    model, dim = recipe.model, recipe.model.dim
    takes = recipe.encoding.takes(recipe.shape.widths)
    hidden, content = int(dim * model.mlp_ratio), dim - takes.tokens
    patch = recipe.data.size[0] * model.patch**2 * content + content
    projections = 3 * dim - model.heads * (takes.q + takes.k + takes.v)
    attention = (dim + 1) * projections + (dim + 1) * dim
    mlp = 2 * dim * hidden + hidden + dim
    norm = 2 * dim
    head = dim * recipe.data.outputs + recipe.data.outputs
    return patch + model.prefix * content + model.depth * (attention + mlp + 2 * norm) + norm + head


def _kept_per_token(recipe: Recipe) -> int:
    """Numbers that a token keeps for the gradient: a block's norms, projections, MLP and pairs, the image, the code."""
    model = recipe.model
    block = (11 + 2 * model.mlp_ratio) * model.dim + recipe.encoding.pairs * model.heads * recipe.shape.tokens
    return int(model.depth * block) + 4 * model.dim + recipe.data.size[0] * model.patch**2
