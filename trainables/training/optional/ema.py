"""An exponential moving average of the weights, which is scored and kept beside them."""

from __future__ import annotations

from typing import Any

from timm.utils import ModelEmaV3

from trainables.backbones.backbone_torch import Host


def weight_average(model: Host, decay: float, warmup: bool = False) -> Any:
    """Returns timm's average of a model's weights and statistics; its `module` is that model, in evaluation mode.

    After each step (`update`) it is decay * average + (1 - decay) * weights; it begins as the model is. Weights that do
    not learn stay as they are. `warmup`: after step s (from 1 on) the decay is 1 - s^(-2/3), at most `decay`.

    Source: timm's ModelEmaV3, DeiT 6. Differs: as in DeiT, `decay` is the same in all steps; timm's training script
    starts the average after the first step, and so does `warmup`.
    """
    return ModelEmaV3(model, decay=decay, use_warmup=warmup)
