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
    own: dict[str, Any] = {}
    if isinstance(spec, LAMB):
        own = {"betas": spec.betas, "eps": spec.eps, "max_grad_norm": None}  # the loop bounds the norm
    elif isinstance(spec, SGD):
        own = {"momentum": spec.momentum, "nesterov": spec.nesterov}
    elif isinstance(spec, Muon):
        names = ("momentum", "nesterov", "ns_steps", "adjust_lr_fn", "betas", "eps")
        own = {name: getattr(spec, name) for name in names}
        groups = {which: {**group, "use_fallback": which[0]} for which, group in groups.items()}
    ordered = [groups[which] for which in sorted(groups)]
    made: torch.optim.Optimizer = create_optimizer_v2(ordered, spec.kind, lr=lr, **own)
    return made
