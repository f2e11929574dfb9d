"""Loads the weights of another model into a model, by name."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from trainables.spec import SpecError

HEADS = ("head.", "head_dist.")
"""How names of heads begin. If the other model has another number of outputs, a head keeps its initial values."""


def load_weights(
    model: nn.Module,
    weights: dict[str, Tensor],
    part: Literal["encoding", "backbone", "all"],
    context: str = "init.values must give a parent",
) -> list[str]:
    """Loads a part of another model's weights by name; the names that were loaded. `context` begins an error message.

    `encoding`: every parameter of the encoding. `backbone`: every other one, a head only if its shape fits. `all`:
    both, but an encoding that the other model does not have keeps its initial values.

    Raises: SpecError if a parameter is missing in the other model, or has another shape there.
    """
    loaded = {}
    for name, mine in model.state_dict().items():
        inside = name.startswith("encoding.")
        if part != "all" and inside != (part == "encoding"):
            continue
        theirs = weights.get(name)
        if theirs is not None and theirs.shape == mine.shape:
            loaded[name] = theirs
        elif not name.startswith(HEADS) and not (inside and part == "all" and theirs is None):
            got = "none" if theirs is None else f"shape {tuple(theirs.shape)}"
            raise SpecError(f"{context} with {name} of shape {tuple(mine.shape)}, got {got}")
    if not loaded:
        raise SpecError(f"init.part must name weights that the encoding has, got {part!r}")
    model.load_state_dict(loaded, strict=False)
    return sorted(loaded)
