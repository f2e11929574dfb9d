"""What a run leaves in its folder: `checkpoint.pt`, from which it goes on, and `weights.pt`, what it learnt.

Both are written whole or not at all, and hold nothing but tensors and plain values (`weights_only` reads them).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

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
