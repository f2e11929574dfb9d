"""Which runs may be trained as one model (`trainables.training.optional.fused`)."""

from __future__ import annotations

from trainables.data import ImagesSpec
from trainables.data.augment import NoAugment, Standard
from trainables.recipe.init_from import FromTrial
from trainables.recipe.losses import NoTeacher
from trainables.recipe.optimizer import AdamW
from trainables.recipe.recipe import Recipe, Run


def fuse(first: Run, other: Run) -> bool:
    """Returns whether two runs may be trained as one: they differ in seeds, and in numbers of one kind of encoding.

    Whether their models have one shape is seen when they are built.
    """
    recipe, encoding = first.recipe, other.recipe.encoding
    if recipe.encoding.kind != encoding.kind or not can_fuse(recipe):
        return False
    return recipe.model_copy(update={"encoding": encoding}) == other.recipe


def can_fuse(recipe: Recipe) -> bool:
    """Returns whether the runs of a recipe may be trained as one model."""
    spec, data = recipe.optimizer, recipe.data
    return (
        isinstance(spec, AdamW)
        and spec.precision != "float16"
        and spec.ema_decay is None
        and not isinstance(recipe.init, FromTrial)
        and isinstance(recipe.teacher, NoTeacher)
        and isinstance(recipe.augment, NoAugment | Standard)
        and not (isinstance(data, ImagesSpec) and data.streamed)
        and not recipe.own_modules
    )
