"""What a run leaves in its folder: `checkpoint.pt`, from which it goes on, and `weights.pt`, what it learnt.

Both are written whole or not at all, and hold nothing but tensors and plain values (`weights_only` reads them).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from trainables.spec import SpecError

CHECKPOINT = "checkpoint.pt"
WEIGHTS = "weights.pt"


def write(path: Path, value: Any) -> None:
    """Writes tensors and plain values so that after a crash the file is the old one or the new one, never a part."""
    draft = path.with_name(path.name + ".tmp")
    with draft.open("wb") as file:
        torch.save(value, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path, device: torch.device | str = "cpu") -> Any:
    """What `write` wrote, its tensors on a device."""
    return torch.load(path, map_location=device, weights_only=True)


def take(model: nn.Module, weights: dict[str, Tensor], part: Literal["encoding", "backbone", "all"]) -> list[str]:
    """Gives the model the parent's weights of a part, by name; the names that were taken.

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
        elif not name.startswith(("head.", "head_dist.")) and not (inside and part == "all" and theirs is None):
            got = "none" if theirs is None else f"shape {tuple(theirs.shape)}"
            raise SpecError(f"start.values must give a parent with {name} of shape {tuple(mine.shape)}, got {got}")
    if not taken:
        raise SpecError(f"start.part must name weights that the encoding has, got {part!r}")
    model.load_state_dict(taken, strict=False)
    return sorted(taken)
