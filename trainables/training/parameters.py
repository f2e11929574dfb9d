"""Which parameters learn, and which of them decay."""

from __future__ import annotations

from typing import Literal

from torch import nn

from trainables.backbones.backbone_torch import Host
from trainables.encodings.encoding_torch import PositionEncoding
from trainables.spec import SpecError
from trainables.weights.load import HEADS


def no_decay(model: nn.Module) -> set[str]:
    """Names the parameters without weight decay: biases, norms, prefix tokens, and what encodings do not let decay."""
    exempt: set[str] = set()
    for prefix, module in model.named_modules():  # an encoding comes before the encodings inside it
        if isinstance(module, PositionEncoding):
            exempt |= {name for name, _ in module.named_parameters(prefix)}
            exempt -= {f"{prefix}.{name}" for name in module.decay}
        if isinstance(module, Host):
            exempt |= {name for name, _ in module.named_parameters(prefix) if module.has_place(name)}
    return {name for name, value in model.named_parameters() if value.ndim < 2 or name in exempt}


def set_trainable(model: Host, trainable: Literal["all", "position", "position+head"]) -> None:
    """Lets all parameters learn, or those of the encoding alone, or of the encoding and the heads.

    An encoding that is frozen keeps its initial values in any case.
    Raises: SpecError if the encoding should learn and has nothing that learns.
    """
    model.requires_grad_(trainable == "all")
    model.encoding.requires_grad_(True)
    for part in model.encoding.modules():
        if isinstance(part, PositionEncoding) and part.frozen:
            part.requires_grad_(False)
    if trainable != "all" and not any(parameter.requires_grad for parameter in model.encoding.parameters()):
        raise SpecError(f"trainable must be 'all' where nothing of the encoding learns, got {trainable!r}")
    if trainable == "position+head":
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(parameter.requires_grad or name.startswith(HEADS))


def train_mode(model: nn.Module) -> None:
    """Sets training mode, in which batch norms that do not learn keep their statistics."""
    keep_statistics(model.train())


def keep_statistics(model: nn.Module) -> None:
    """Takes batch norms that do not learn out of training mode."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and not module.weight.requires_grad:
            module.eval()
