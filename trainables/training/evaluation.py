"""The metric of a trained model on a split of the data, also on images of another size.

Metrics are computed from sums over images, so that each worker can add up its own share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainables.backbones.backbone_torch import Host
from trainables.data.dataset import Metric, SplitName
from trainables.data.splits_torch import Images
from trainables.recipe import Recipe
from trainables.recipe.evaluation import eval_batch
from trainables.training.distributed import DataParallel


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
        """Returns the model for images of a side (None: as they are), and how they get it. Raises: as `at_size`."""
        if side is None:
            return model.eval(), nn.Identity()
        from trainables.weights.transfer import at_size, resized

        return at_size(model, self.recipe, side), lambda images: resized(images, side)


def metric_sums(metric: Metric, outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the right answers of each class, or the squared errors of each target. NaN if an output is not finite.

    Shapes: outputs (N, K); targets (N,) for accuracies, (N, K) for r2; returns (K,).
    """
    outputs = outputs.double()
    if metric == "r2":
        return (outputs - targets.double()).square().sum(dim=0)
    hits = (outputs.argmax(dim=1) == targets).double()
    hits = torch.where(outputs.isfinite().all(dim=1), hits, torch.nan)
    return hits.new_zeros(outputs.shape[1]).index_add(0, targets, hits)


def compute_metric(metric: Metric, sums: Tensor, targets: Tensor) -> float:
    """Returns the accuracy, balanced accuracy, or R^2 averaged over the targets, of all images together.

    Balanced accuracy is the mean over the classes that have images of each one's share of right answers; one where an
    output is not finite makes the accuracy NaN.
    Shapes: sums as `metric_sums` returns them, added over all shares; targets of all images.
    """
    if metric == "accuracy":
        return float(sums.sum()) / len(targets)
    if metric == "balanced_accuracy":
        images = torch.bincount(targets, minlength=len(sums))
        return float((sums[images > 0] / images[images > 0]).mean())
    spread = (targets.double() - targets.double().mean(dim=0)).square().sum(dim=0)
    return float((1 - sums / spread).mean())
