"""Hard distillation: the teacher's label of every training image, computed once, before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from trainables.data.splits_torch import Split
from trainables.recipe import Recipe, TaughtByFile, Use
from trainables.recipe.evaluation import eval_batch
from trainables.recipe.model_torch import build_model
from trainables.spec import SpecError
from trainables.training.checkpoint import read
from trainables.training.normalize import normalizer


@torch.no_grad()
def teacher_labels(recipe: Recipe, parents: Mapping[Use, Path], split: Split, dtype: torch.dtype) -> Tensor:
    """The teacher's most likely class of every image of a split; the teacher is dropped afterwards.

    Shapes: (N,) class indices.
    Raises: SpecError where the weights are not those of the teacher's recipe.
    Source: DeiT 3, y_t = argmax of the teacher. Differs: computed once, of the images as they are; where the student's
    images are augmented, DeiT computes it for each augmented image.
    Cost: an evaluation of the split.
    """
    assert recipe.teacher_recipe is not None, "a teacher has a recipe"
    device, batch = split.images.device, eval_batch(recipe.teacher_recipe)
    model = _teacher(recipe, recipe.teacher_recipe, parents).to(device, dtype).eval()
    normalize = normalizer(recipe.teacher_recipe, device, dtype)
    batches = (slice(first, first + batch) for first in range(0, len(split), batch))
    return torch.cat([model(normalize(split.batch(chosen, dtype)[0])).argmax(dim=1) for chosen in batches])


def _teacher(recipe: Recipe, teacher: Recipe, parents: Mapping[Use, Path]) -> nn.Module:
    if isinstance(recipe.teacher, TaughtByFile):
        from trainables.weights.files import read_weights

        weights = read_weights(recipe.teacher.path, recipe.teacher.sha256, ema=recipe.teacher.ema)
    else:
        weights = read(parents["teacher"])
    model = build_model(teacher)
    expected = model.state_dict()
    for name in {**expected, **weights}:
        must, got = _shape(expected, name), _shape(weights, name)
        if must != got:
            raise SpecError(f"teacher must have the weights of its recipe, {name} of shape {must}, got {got}")
    model.load_state_dict(weights)
    return model


def _shape(weights: Mapping[str, Tensor], name: str) -> str:
    return str(tuple(weights[name].shape)) if name in weights else "none"
