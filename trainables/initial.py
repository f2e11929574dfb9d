"""Initial weights by name: every parameter is drawn from a stream of its own.

The stream is named by the seed and the parameter's qualified name. Two models with the same seed therefore share every
parameter of the same name and shape, up to the scale that its knobs set, whatever else differs: arms of a study are
paired. A module with a method `start` says how its parameters, and those of the modules in it, begin.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from trainables.spec import SpecError
from trainables.streams import torch_stream


@runtime_checkable
class Starts(Protocol):
    """A module that fills the initial values of its parameters."""

    def start(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Fills `value`, the parameter `name` of this module, from its stream."""


def draw(model: nn.Module, seed: int) -> None:
    """Fills every parameter of a model from the streams of a seed. The innermost module with a `start` decides how.

    Values are drawn in float64 and rounded to the parameter's type, so models of other types begin at the same point.
    """
    starters = {name: module for name, module in model.named_modules() if isinstance(module, Starts)}
    for name, parameter in model.named_parameters():
        owner = max((prefix for prefix in starters if not prefix or name.startswith(f"{prefix}.")), key=len)
        value = torch.empty(parameter.shape, dtype=torch.float64)
        with torch.no_grad():
            starters[owner].start(name.removeprefix(f"{owner}."), value, torch_stream(seed, name))
            parameter.copy_(value)


def torch_start(module: nn.Module, name: str, value: Tensor, stream: torch.Generator) -> None:
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
        raise SpecError(f"{type(module).__name__}.start must say how its parameter '{name}' begins, got nothing")


def cut_normal(value: Tensor, stream: torch.Generator) -> None:
    """Fills a value with timm's usual normal of deviation 0.02, cut at +-2."""
    nn.init.trunc_normal_(value, std=0.02, generator=stream)


def pyramid_start(module: nn.Module, name: str, value: Tensor, stream: torch.Generator) -> None:
    """Starts a parameter of a pyramid as PVT does: convolutions normal by their fan out, the rest as `timm_start`.

    Source: timm's `_init_weights` of PVT v2 and Twins. Differs: as `torch_start`.
    """
    path, _, leaf = name.rpartition(".")
    layer = module.get_submodule(path)
    if not isinstance(layer, nn.Conv2d):
        timm_start(module, name, value, stream)
    elif leaf == "weight":
        fan_out = layer.kernel_size[0] * layer.kernel_size[1] * layer.out_channels // layer.groups
        value.normal_(std=math.sqrt(2 / fan_out), generator=stream)
    else:
        value.zero_()


def timm_start(module: nn.Module, name: str, value: Tensor, stream: torch.Generator) -> None:
    """Starts a parameter of timm's ViT as timm does: linear weights and the distillation token truncated
    normal, the class token near zero.

    Source: timm's `init_weights_vit_timm`, `deit.py` for the distillation token; the patch embedding keeps torch's
    start. Differs: as `torch_start`.
    """
    path, _, leaf = name.rpartition(".")
    if name == "cls_token":
        value.normal_(std=1e-6, generator=stream)
    elif name == "dist_token":
        nn.init.trunc_normal_(value, std=0.02, generator=stream)
    elif not isinstance(module.get_submodule(path), nn.Linear):
        torch_start(module, name, value, stream)
    elif leaf == "weight":
        cut_normal(value, stream)
    else:
        value.zero_()
