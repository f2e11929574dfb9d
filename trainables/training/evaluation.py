"""The metric of a trained model on a split of the data, also on images of another size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainables.backbones.backbone_torch import Host
from trainables.data.dataset import SplitName
from trainables.data.splits_torch import Images
from trainables.recipe import Recipe
from trainables.recipe.evaluation import eval_batch
from trainables.training.distributed import DataParallel
from trainables.training.metrics import compute_metric, metric_sums


@dataclass(frozen=True)
class Evaluation:
    """How the model of a recipe is evaluated: normalized pixels, a type of numbers, the workers that share the work."""

    recipe: Recipe
    normalize: nn.Module
    dtype: torch.dtype
    autocast: torch.autocast
    team: DataParallel

    @torch.inference_mode()
    def __call__(self, model: Host, split: SplitName, images: Images, side: int | None = None) -> float:
        """Returns the score on a split's images, or on them resized to another side; NaN if an output is not finite."""
        data = self.recipe.data
        model, resize = self.model_at(model, side)
        total = torch.zeros(data.outputs, dtype=torch.float64, device=images.targets.device)
        mine = torch.arange(self.team.rank, len(images), self.team.world_size, device=images.targets.device)
        parts = torch.split(mine, eval_batch(self.recipe, side)) if len(mine) else ()
        for pixels, targets in images.batches(parts, self.dtype):
            with self.autocast:
                outputs = model(self.normalize(resize(pixels)))
            total += metric_sums(data.metric, outputs, targets)
        return data.score(compute_metric(data.metric, self.team.all_reduce(total), images.targets), split)

    def model_at(self, model: Host, side: int | None) -> tuple[Host, Callable[[Tensor], Tensor]]:
        """Returns the model for images of another side (None: as they are), to evaluate, and how images get that side.

        Raises: SpecError if the model cannot have that side.
        """
        if side is None:
            return model.eval(), nn.Identity()
        from trainables.weights.transfer import at_size, resized  # computes these runs' numbers alone

        return at_size(model, self.recipe, side), lambda images: resized(images, side)
