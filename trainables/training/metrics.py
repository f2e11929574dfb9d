"""The metrics of predictions: accuracy, balanced accuracy, and R^2.

Both are computed from sums over images, so that each worker can add up its own share: `metric_sums` returns the sums of
a share, `compute_metric` the metric of the sums over all shares.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.data.dataset import Metric


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
