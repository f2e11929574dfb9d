"""Initial values of the parameters of timm's models: timm's distributions, drawn from given random streams."""

from __future__ import annotations

import math

import torch
from timm.layers import LayerScale
from torch import Tensor, nn

from trainables.encodings.initial_torch import torch_init


def trunc_normal(value: Tensor, stream: torch.Generator) -> None:
    """Fills a value with timm's usual normal of deviation 0.02, cut at +-2."""
    nn.init.trunc_normal_(value, std=0.02, generator=stream)


def pyramid_init(module: nn.Module, name: str, value: Tensor, stream: torch.Generator) -> None:
    """Fills a parameter of a pyramid as PVT does: convolutions normal by their fan out, the rest as `timm_init`.

    Source: timm's `_init_weights` of PVT v2 and Twins. Differs: drawn from the given stream.
    """
    path, _, leaf = name.rpartition(".")
    layer = module.get_submodule(path)
    if not isinstance(layer, nn.Conv2d):
        timm_init(module, name, value, stream)
    elif leaf == "weight":
        fan_out = layer.kernel_size[0] * layer.kernel_size[1] * layer.out_channels // layer.groups
        value.normal_(std=math.sqrt(2 / fan_out), generator=stream)
    else:
        value.zero_()


def timm_init(module: nn.Module, name: str, value: Tensor, stream: torch.Generator) -> None:
    """Fills a parameter of timm's ViT as timm does: linear weights and the distillation token truncated normal, the
    class token and registers near zero, a layer's scale constant.

    Source: timm's `init_weights_vit_timm`, `deit.py` for the distillation token; the patch embedding keeps
    torch's values. Differs: drawn from the given stream.
    """
    path, _, leaf = name.rpartition(".")
    layer = module.get_submodule(path)
    if name in ("cls_token", "reg_token"):
        value.normal_(std=1e-6, generator=stream)
    elif isinstance(layer, LayerScale):
        value.fill_(layer.init_values)
    elif name == "dist_token" or (isinstance(layer, nn.Linear) and leaf == "weight"):
        trunc_normal(value, stream)
    elif not isinstance(layer, nn.Linear):
        torch_init(module, name, value, stream)
    else:
        value.zero_()
