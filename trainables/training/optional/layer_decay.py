"""Learning rates that fall from layer to layer, from the head down to the patches."""

from __future__ import annotations

from timm.models import group_parameters
from torch import nn

from trainables.backbones.backbone_torch import Host


def layer_scales(model: nn.Module, decay: float) -> dict[str, float]:
    """Returns the factor of the learning rate of each parameter, by name, for a model or an objective that holds one.

    The head has 1, the last block `decay`, and so on down to the patches, with `decay ** (blocks + 1)`. All parameters
    of an encoding and all prefix tokens belong to the lowest layer, also those of an encoding that acts inside a block.
    Parameters outside the model (of an auxiliary loss) have 1, as the head.

    Source: BEiT's layer-wise decay, as timm's `param_groups_layer_decay` has it; timm puts its table of positions into
    the lowest layer. Differs: nothing.
    """
    ((prefix, host),) = [(name, module) for name, module in model.named_modules() if isinstance(module, Host)]
    prefix = f"{prefix}." if prefix else ""
    layers: dict[str, int] = group_parameters(host, host.group_matcher(coarse=False), reverse=True)
    highest = max(layers.values())
    lowest = {name for name in layers if name.startswith("encoding.") or host.has_place(name)}
    scales = {prefix + name: decay ** (highest - (0 if name in lowest else layers[name])) for name in layers}
    return {name: scales.get(name, 1.0) for name, _ in model.named_parameters()}
