"""How the parameters of a layer start: as torch starts them, but from a stream of their own."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from trainables.spec import SpecError


def torch_init(module: nn.Module, name: str, value: Tensor, stream: torch.Generator) -> None:
    """Starts a parameter of a layer as torch does: linear and convolution uniform, normalisation at one and zero.

    Raises: SpecError for a parameter that belongs to no such layer.
    Source: torch.nn's `reset_parameters`: Kaiming's uniform with a = sqrt(5), which is +-1/sqrt(fan in).
    Differs: drawn from a stream of its own.
    """
    path, _, leaf = name.rpartition(".")
    layer = module.get_submodule(path)
    if isinstance(layer, nn.Linear | nn.Conv2d):
        bound = 1 / math.sqrt(layer.weight[0].numel())
        value.uniform_(-bound, bound, generator=stream)
    elif isinstance(layer, nn.LayerNorm | nn.BatchNorm2d):
        value.fill_(float(leaf == "weight"))
    else:
        raise SpecError(
            f"{type(module).__name__}.init_parameter must set the initial value of parameter '{name}', got none"
        )
