"""AdamW with groups of parameters, and the learning rate of every step.

The rate depends on the step alone, so a resumed run needs no state of a scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import nn

from trainables.recipe import AdamW


def adamw(model: nn.Module, spec: AdamW, no_decay: Collection[str]) -> torch.optim.AdamW:
    """The optimizer of the parameters that learn; those named in `no_decay` do not decay.

    Source: Loshchilov and Hutter, Decoupled weight decay regularization, algorithm 2 (as torch has it).
    Differs: norms, biases, the class token and position parameters do not decay, as is usual for ViTs: decay would
    shrink the frequencies of Fourier features to zero.
    """
    learning = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    scales = _scales(model, spec)
    groups: dict[tuple[bool, float], dict[str, Any]] = {}
    for name, parameter in learning.items():
        exempt, scale = name in no_decay, scales.get(name, 1.0)
        empty = {"params": [], "weight_decay": 0.0 if exempt else spec.weight_decay, "lr_scale": scale}
        groups.setdefault((exempt, scale), empty)["params"].append(parameter)
    ordered = [groups[which] for which in sorted(groups)]
    return torch.optim.AdamW(ordered, lr=spec.lr, betas=spec.betas, eps=spec.eps, fused=True)


def _scales(model: nn.Module, spec: AdamW) -> dict[str, float]:
    """The factors of the learning rates that are not 1, by name."""
    if spec.layer_decay is None:
        return {}
    from trainables.training.optional.layer_decay import layer_scales

    return layer_scales(model, spec.layer_decay)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of every group: the rate times the group's factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["lr_scale"]


def rate(spec: AdamW, step: int, steps: int) -> float:
    """The learning rate of a step (counted from 0) of all `steps`.

    `one_cycle`: from lr / 25 to lr in the warm-up, then to lr / 250,000, both along cosines. `cosine`: from nearly 0 to
    lr in a line, then to nearly 0 along a cosine. `constant`: lr throughout, without warm-up.

    Source: torch's OneCycleLR with its defaults. Differs: the momentum stays.
    """
    if spec.schedule == "constant":
        return spec.lr
    if spec.schedule == "cosine":
        return _cosine(spec, step, steps)
    highest = spec.warmup * steps - 1
    if step < highest:
        return _along_cosine(spec.lr / 25, spec.lr, step / highest)
    return _along_cosine(spec.lr, spec.lr / 250_000, (step - highest) / (steps - 1 - highest))


def _cosine(spec: AdamW, step: int, steps: int) -> float:
    rising = spec.warmup * steps
    if step < rising:
        return spec.lr * min(1.0, (step + 1) / rising)
    return _along_cosine(spec.lr, 0.0, (step - rising + 1) / (steps - rising + 1))


def _along_cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
