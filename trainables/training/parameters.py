"""Which parameters learn, and which of them decay."""

from __future__ import annotations

from typing import Literal

from torch import nn

from trainables.backbones.backbone_torch import Host
from trainables.encodings.encoding_torch import PositionEncoding
from trainables.spec import SpecError


def no_decay(model: nn.Module) -> set[str]:
    """Names of parameters without weight decay: biases, norms, prefix tokens, and what encodings do not let decay."""
    exempt: set[str] = set()
    for prefix, module in model.named_modules():  # an encoding comes before the encodings inside it
        if isinstance(module, PositionEncoding):
            exempt |= {name for name, _ in module.named_parameters(prefix)}
            exempt -= {f"{prefix}.{name}" for name in module.decay}
        if isinstance(module, Host):
            exempt |= {name for name, _ in module.named_parameters(prefix) if module.has_place(name)}
    return {name for name, value in model.named_parameters() if value.ndim < 2 or name in exempt}


def set_trainable(model: Host, trainable: Literal["all", "position"]) -> None:
    """Lets all parameters learn, or the encoding's only; frozen parts stay as they start.

    Raises: SpecError where only position should learn and the encoding has nothing that learns.
    """
    model.requires_grad_(trainable == "all")
    model.encoding.requires_grad_(True)
    for part in model.encoding.modules():
        if isinstance(part, PositionEncoding) and part.frozen:
            part.requires_grad_(False)
    if trainable == "position" and not any(parameter.requires_grad for parameter in model.encoding.parameters()):
        raise SpecError("trainable must be 'all' where nothing of the encoding learns, got 'position'")


def to_learning(model: nn.Module) -> None:
    """Training mode, in which a normalisation that does not learn keeps its statistics, too."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and not module.weight.requires_grad:
            module.eval()
