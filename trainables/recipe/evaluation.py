"""How many images are evaluated together, so that an evaluation fits into memory at every size of images."""

from __future__ import annotations

from trainables.recipe.recipe import Recipe

EVAL_BATCH = 256
"""Images that are evaluated together, at most."""
EVAL_BYTES = 2**30
"""Bytes that the activations of an evaluation may need, by estimate."""


def eval_batch(recipe: Recipe, side: int | None = None) -> int:
    """Returns how many images of a side (None: the recipe's own) are evaluated together: 1 to 256. Units: pixels."""
    return max(1, min(EVAL_BATCH, EVAL_BYTES // eval_bytes(recipe, side)))


def eval_bytes(recipe: Recipe, side: int | None = None) -> int:
    """Returns the bytes of one image's activations in an evaluation: half of what a block keeps for its gradient.

    Measured for contextual iRPE at 64 and 80 pixels; one block after another needs memory. No block needs less than its
    tokens, queries, keys and values.
    """
    size = recipe.data.size if side is None else recipe.size_at(side)
    shapes = recipe.model.shapes(size)
    kept = recipe.model.saved_activations(size, recipe.encoding.saved_pairs)
    blocks = sum(shape.depth for shape in shapes)
    least = max(5 * shape.tokens * shape.widths.dim for shape in shapes)
    return number_bytes(recipe) * max(least, kept // (2 * blocks))


def number_bytes(recipe: Recipe) -> int:
    """Returns the bytes of one number of a model."""
    return 8 if recipe.optimizer.precision == "float64" else 4
