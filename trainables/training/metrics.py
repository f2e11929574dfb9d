"""How good predictions are: accuracy, or R^2.

Both are sums over images, so that the workers of a run can each score their own share: `tally` gives a share's sums,
`score` makes one number of the sums over all shares.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Metric = Literal["accuracy", "r2"]


def tally(metric: Metric, outputs: Tensor, targets: Tensor) -> Tensor:
    """Sums that add up over images: the hits, or the squared errors of each target. NaN where an output is not finite.

    Shapes: outputs (N, K); targets (N,) for accuracy, (N, K) for r2; returns (1,) or (K,).
    """
    outputs = outputs.double()
    if metric == "r2":
        return (outputs - targets.double()).square().sum(dim=0)
    hits = (outputs.argmax(dim=1) == targets).double()
    return torch.where(outputs.isfinite().all(dim=1), hits, torch.nan).sum().reshape(1)


def score(metric: Metric, tallied: Tensor, targets: Tensor) -> float:
    """The accuracy, or R^2 averaged over the targets, of all images together.

    Shapes: tallied as `tally` gives it, summed over all shares; targets of all images.
    """
    if metric == "accuracy":
        return float(tallied) / len(targets)
    spread = (targets.double() - targets.double().mean(dim=0)).square().sum(dim=0)
    return float((1 - tallied / spread).mean())
