"""Hard distillation: what the teacher says of every training image, asked once, before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from trainables.data.dataset_torch import Split
from trainables.recipe import Recipe, TaughtByFile, Use
from trainables.recipe.model_torch import build_model
from trainables.spec import SpecError
from trainables.training.checkpoint import read

ASKED = 256
"""Images that the teacher sees at once."""


@torch.no_grad()
def taught(recipe: Recipe, parents: Mapping[Use, Path], split: Split, dtype: torch.dtype) -> Tensor:
    """The teacher's most likely class of every image of a split, after which the teacher is dropped.

    Shapes: (N,) class indices.
    Raises: SpecError where the weights are not those of the teacher's recipe.
    Source: DeiT 3, y_t = argmax of the teacher. Differs: asked of the images as they are, once; where the pupil's
    images are augmented, DeiT asks anew of each one.
    Cost: an evaluation of the split.
    """
    model = _teacher(recipe, parents).to(split.images.device, dtype).eval()
    batches = (slice(first, first + ASKED) for first in range(0, len(split), ASKED))
    return torch.cat([model(split.batch(chosen, dtype)[0]).argmax(dim=1) for chosen in batches])


def _teacher(recipe: Recipe, parents: Mapping[Use, Path]) -> nn.Module:
    assert recipe.teacher_recipe is not None, "a teacher has a recipe"
    if isinstance(recipe.teacher, TaughtByFile):
        from trainables.weights.files import read_weights

        weights = read_weights(recipe.teacher.path, recipe.teacher.sha256)
    else:
        weights = read(parents["teacher"])
    model = build_model(recipe.teacher_recipe)
    mine = model.state_dict()
    for name in {**mine, **weights}:
        asked, got = (str(tuple(some[name].shape)) if name in some else "none" for some in (mine, weights))
        if asked != got:
            raise SpecError(f"teacher must have the weights of its recipe, {name} of shape {asked}, got {got}")
    model.load_state_dict(weights)
    return model
