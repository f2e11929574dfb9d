"""Gives a model the weights of another one, by name."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from trainables.spec import SpecError

HEADS = ("head.", "head_dist.")
"""What follows the task: where classes differ, it stays as it was drawn."""


def take(
    model: nn.Module,
    weights: dict[str, Tensor],
    part: Literal["encoding", "backbone", "all"],
    giver: str = "init.values must give a parent",
) -> list[str]:
    """Gives the model a parent's weights of a part, by name; the names that were taken. `giver` begins a complaint.

    `encoding`: every parameter of the encoding. `backbone`: every other one, the head where its shape fits (a head of
    another task stays as it was drawn). `all`: both, but an encoding that the parent lacks stays as it was drawn.

    Raises: SpecError where a parameter is missing in the parent, or has another shape there.
    """
    taken = {}
    for name, mine in model.state_dict().items():
        inside = name.startswith("encoding.")
        if part != "all" and inside != (part == "encoding"):
            continue
        theirs = weights.get(name)
        if theirs is not None and theirs.shape == mine.shape:
            taken[name] = theirs
        elif not name.startswith(HEADS) and not (inside and part == "all" and theirs is None):
            got = "none" if theirs is None else f"shape {tuple(theirs.shape)}"
            raise SpecError(f"{giver} with {name} of shape {tuple(mine.shape)}, got {got}")
    if not taken:
        raise SpecError(f"init.part must name weights that the encoding has, got {part!r}")
    model.load_state_dict(taken, strict=False)
    return sorted(taken)
