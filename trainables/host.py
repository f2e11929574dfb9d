"""What every trunk with an encoding in it can do: tokens from images, answers from tokens; and what learns in it."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from trainables.encoding import PositionEncoding, Tokens
from trainables.spec import SpecError


class Host(nn.Module):
    """A trunk whose position comes from `encoding`: a composition, or a list of them, one a stage."""

    encoding: nn.Module

    def features(self, images: Tensor) -> Tokens:
        """The tokens after the last block and norm. Shapes: (B, channels, height, width) to (B, N, D)."""
        raise NotImplementedError

    def answers(self, t: Tokens) -> tuple[Tensor, ...]:
        """What each head says of the tokens. Shapes: (B, outputs) each."""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        """The mean of what the heads say. Shapes: (B, channels, height, width) to (B, outputs)."""
        first, *others = self.answers(self.features(images))
        return first if not others else (first + sum(others)) / (1 + len(others))


def no_decay(model: nn.Module) -> set[str]:
    """The parameters that weight decay would spoil: biases, norms, prefix tokens, position tables, frequencies."""
    positions = {
        f"{prefix}.{name}"
        for prefix, module in model.named_modules()
        if isinstance(module, PositionEncoding)
        for name in module.undecayed
    }
    names = dict(model.named_parameters())
    return {name for name, value in names.items() if value.ndim < 2 or name.endswith("_token") or name in positions}


def trainable(model: Host, learns: Literal["all", "position"]) -> None:
    """Lets all parameters learn, or the encoding's only; frozen parts stay as they start.

    Raises: SpecError where only position should learn and the encoding has nothing that learns.
    """
    model.requires_grad_(learns == "all")
    model.encoding.requires_grad_(True)
    for part in model.encoding.modules():
        if isinstance(part, PositionEncoding) and part.frozen:
            part.requires_grad_(False)
    if learns == "position" and not any(parameter.requires_grad for parameter in model.encoding.parameters()):
        raise SpecError("learns must be 'all' where nothing of the encoding learns, got 'position'")
