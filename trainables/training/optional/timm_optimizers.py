"""The optimizers beside AdamW, as timm builds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from timm.optim import create_optimizer_v2

from trainables.recipe.optimizer import LAMB, SGD, Muon, OptimizerSpec


def timm_optimizer(
    spec: OptimizerSpec, groups: Mapping[tuple[bool, float], dict[str, Any]], lr: float
) -> torch.optim.Optimizer:
    """Returns timm's optimizer of a kind. `groups`: of parameters, by whether they have no decay, and their factor."""
    options: dict[str, Any] = {}
    if isinstance(spec, LAMB):
        options = {"betas": spec.betas, "eps": spec.eps, "max_grad_norm": None}  # the loop bounds the norm
    elif isinstance(spec, SGD):
        options = {"momentum": spec.momentum, "nesterov": spec.nesterov}
    elif isinstance(spec, Muon):
        names = ("momentum", "nesterov", "ns_steps", "adjust_lr_fn", "betas", "eps")
        options = {name: getattr(spec, name) for name in names}
        groups = {key: {**group, "use_fallback": key[0]} for key, group in groups.items()}
    ordered = [groups[key] for key in sorted(groups)]
    optimizer: torch.optim.Optimizer = create_optimizer_v2(ordered, spec.kind, lr=lr, **options)
    return optimizer
