"""The optimizer with its groups of parameters, and the learning rate of every step.

The rate depends on the step alone, so a resumed run needs no state of a scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import nn

from trainables.recipe import AdamW
from trainables.recipe.optimizer import OptimizerSpec


def build_optimizer(model: nn.Module, spec: OptimizerSpec, no_decay: Collection[str]) -> torch.optim.Optimizer:
    """Returns the optimizer of the parameters that learn; those named in `no_decay` do not decay.

    Source: the optimizer's own (`trainables.recipe.optimizer`). Differs: norms, biases, the class token and position
    parameters do not decay, as is usual for ViTs: decay would shrink the frequencies of Fourier features to zero.
    """
    scales: dict[str, float] = {}
    if spec.layer_decay is not None:
        from trainables.training.optional.layer_decay import layer_scales

        scales = layer_scales(model, spec.layer_decay)
    groups: dict[tuple[bool, float], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            exempt, scale = name in no_decay, scales.get(name, 1.0)
            empty = {"params": [], "weight_decay": 0.0 if exempt else spec.weight_decay, "lr_scale": scale}
            groups.setdefault((exempt, scale), empty)["params"].append(parameter)
    if isinstance(spec, AdamW):
        ordered = [groups[key] for key in sorted(groups)]
        return torch.optim.AdamW(ordered, lr=highest_rate(spec), betas=spec.betas, eps=spec.eps, fused=True)
    from trainables.training.optional.timm_optimizers import timm_optimizer

    return timm_optimizer(spec, groups, highest_rate(spec))


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of every group: the rate times the group's factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["lr_scale"]


def highest_rate(spec: OptimizerSpec) -> float:
    """Returns the highest learning rate, in proportion to the batch size where `lr` is meant for a given one.

    Source: Goyal et al. 2017, section 2.1, the linear scaling rule; DeiT 6 has 512 images. timm has the name.
    Differs: the batch is that of all workers together, however many parts it is computed in.
    """
    return spec.lr if spec.lr_base_size is None else spec.lr * spec.batch_size / spec.lr_base_size


def rate(spec: OptimizerSpec, step: int, steps: int, cooling: int | None = None) -> float:
    """Returns the learning rate of a step (counted from 0) of all `steps`; `lr` is the highest (`highest_rate`).

    `steps`: of `spec.epochs` epochs. `cooling`: the length whose cooldown the step is of (`Pass.cooling`).

    `one_cycle`: from lr / 25 to lr in the warm-up, then to lr / 250,000, both along cosines. `cosine`: from nearly 0 to
    lr in a line, then nearly to `min_lr` along a cosine. `constant`: lr throughout, without warm-up. `wsd`: from nearly
    0 to lr in a line, then lr, and in a cooldown of n steps lr * (1 - sqrt(k / n)), k from 0.

    Source: torch's OneCycleLR with its defaults; Haegele et al. 2024, section 3. Differs: the momentum stays.
    """
    lr = highest_rate(spec)
    if spec.schedule == "constant":
        return lr
    if spec.schedule == "wsd":
        epoch_steps = steps // spec.epochs
        rising = spec.warmup * spec.every_length[0] * epoch_steps
        factor = min(1.0, (step + 1) / rising) if rising else 1.0
        if cooling is not None:
            falling = spec.cooling_epochs(cooling)
            factor *= 1 - math.sqrt((step - (cooling - falling) * epoch_steps) / (falling * epoch_steps))
        return lr * factor
    if spec.schedule == "cosine":
        rising = spec.warmup * steps
        if step < rising:
            return lr * min(1.0, (step + 1) / rising)
        return _along_cosine(lr, spec.min_lr, (step - rising + 1) / (steps - rising + 1))
    highest = spec.warmup * steps - 1
    if step < highest:
        return _along_cosine(lr / 25, lr, step / highest)
    return _along_cosine(lr, lr / 250_000, (step - highest) / (steps - 1 - highest))


def _along_cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
