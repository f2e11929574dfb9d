"""Initial values of a layer's parameters: torch's own distributions, drawn from given random streams."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from trainables.spec import SpecError


def torch_init(module: nn.Module, name: str, value: Tensor, stream: torch.Generator) -> None:
    """Fills a layer's parameter as torch does: uniform for linear and convolution, one and zero for normalization.

    Raises: SpecError for a parameter that belongs to no such layer.
    Source: torch.nn's `reset_parameters`: Kaiming's uniform with a = sqrt(5), which is +-1/sqrt(fan in).
    Differs: drawn from the given stream.
    """
    path, _, leaf = name.rpartition(".")
    layer = module.get_submodule(path)
    if isinstance(layer, nn.Linear | nn.Conv2d):
        bound = 1 / math.sqrt(layer.weight[0].numel())
        value.uniform_(-bound, bound, generator=stream)
    elif isinstance(layer, nn.LayerNorm | nn.BatchNorm2d):
        value.fill_(float(leaf == "weight"))
    else:
        method = f"{type(module).__name__}.init_parameter"
        raise SpecError(f"{method} must set the initial value of parameter '{name}', got none")


def fill_trunc_normal(value: Tensor, std: float, stream: torch.Generator) -> None:
    """Fills a tensor with normal values around 0, cut at -2 and 2."""
    nn.init.trunc_normal_(value, std=std, generator=stream)
