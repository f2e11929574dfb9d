"""Initial weights by name: every parameter is drawn from a stream of its own.

The stream is named by the seed and the parameter's qualified name. Two models with the same seed therefore share every
parameter of the same name and shape, up to the scale that the spec sets, whatever else differs: arms of a study are
paired. A module with a method `init_parameter` decides the initial values of its parameters, and of the modules in it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from trainables.rng_torch import torch_stream


@runtime_checkable
class InitializesParameters(Protocol):
    """A module that fills the initial values of its parameters."""

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Fills `value`, the parameter `name` of this module, from its stream."""


def init_weights(model: nn.Module, seed: int, names: Container[str] | None = None) -> None:
    """Fills every parameter of a model from the streams of a seed; the innermost `init_parameter` decides how.

    `names`: of the parameters that are filled, by default all. Values are drawn in float64 and rounded to the
    parameter's type, so models of all types start equal.
    """
    initializers = {name: module for name, module in model.named_modules() if isinstance(module, InitializesParameters)}
    for name, parameter in model.named_parameters():
        if names is not None and name not in names:
            continue
        owner = max((prefix for prefix in initializers if not prefix or name.startswith(f"{prefix}.")), key=len)
        value = torch.empty(parameter.shape, dtype=torch.float64)
        with torch.no_grad():
            initializers[owner].init_parameter(name.removeprefix(f"{owner}."), value, torch_stream(seed, name))
            parameter.copy_(value)
