"""Distillation: the teacher's label of an image is a second label for the student."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from trainables.data.splits_torch import Images
from trainables.recipe import Recipe, TaughtByFile, Use
from trainables.recipe.evaluation import eval_batch
from trainables.recipe.losses import Taught
from trainables.recipe.model_torch import build_model
from trainables.spec import SpecError
from trainables.training.checkpoint import read
from trainables.training.normalize import normalizer


class Teacher:
    """A trained model that labels images. It sees the student's pixels, normalized as it was trained.

    Raises: SpecError if the weights are not those of the teacher's recipe.
    Source: DeiT 4, equations 2 and 3. Differs: nothing.
    """

    def __init__(self, recipe: Recipe, parents: Mapping[Use, Path], device: torch.device, dtype: torch.dtype) -> None:
        assert isinstance(recipe.teacher, Taught), "a teacher has a recipe"
        assert recipe.teacher_recipe is not None, "a teacher has a recipe"
        self.tau = recipe.teacher.tau
        self.recipe, self.dtype = recipe.teacher_recipe, dtype
        model = build_model(self.recipe)
        expected = model.state_dict()
        if isinstance(recipe.teacher, TaughtByFile):
            from trainables.weights.files import read_weights

            file = recipe.teacher
            weights = read_weights(file.path, file.sha256, expected, file.entry, "teacher").weights
        else:
            weights = read(parents["teacher"])
        for name in {**expected, **weights}:
            must, got = _shape(expected, name), _shape(weights, name)
            if must != got:
                raise SpecError(f"teacher must have the weights of its recipe, {name} of shape {must}, got {got}")
        model.load_state_dict(weights)
        self.model = model.to(device, dtype).eval()
        self.normalize = normalizer(self.recipe, device, dtype)

    @torch.no_grad()
    def __call__(self, pixels: Tensor) -> Tensor:
        """Returns the most likely class of each image, or the probabilities of all.

        Shapes: (B, C, R, S) to (B,) or (B, K).
        """
        logits: Tensor = self.model(self.normalize(pixels))
        return logits.argmax(dim=1) if self.tau is None else torch.softmax(logits / self.tau, dim=1)

    def labels(self, images: Images) -> Tensor:
        """Returns the label of every image of a split. Shapes: (N,) or (N, K). Cost: an evaluation of the split."""
        numbers = torch.arange(len(images), device=images.targets.device)
        parts = torch.split(numbers, eval_batch(self.recipe))
        return torch.cat([self(pixels) for pixels, _ in images.batches(parts, self.dtype)])


def _shape(weights: Mapping[str, Tensor], name: str) -> str:
    return str(tuple(weights[name].shape)) if name in weights else "none"
