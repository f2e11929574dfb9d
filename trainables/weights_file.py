"""Reads a file of weights, known by its content: a state dict as torch or safetensors wrote it."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from trainables.spec import SpecError

UNDER = ("model", "state_dict", "model_state_dict")
"""Where published checkpoints hold their state dict, if they are none themselves."""


def read_weights(path: str, sha256: str) -> dict[str, Tensor]:
    """The tensors of a file by name, once it is seen to be the one that is meant. `path`: .safetensors, else torch's.

    Raises: SpecError for no file, one of other content, or one that holds no state dict.
    """
    if not Path(path).is_file():
        raise SpecError(f"no file {path}")
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise SpecError(f"{path} must have the SHA-256 {sha256}, got {found}")
    try:
        held = load_file(path) if path.endswith(".safetensors") else torch.load(path, "cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError) as error:
        why = str(error).partition("\n")[0] or "nothing"
        raise SpecError(f"{path} must be a file of tensors, got {why}") from None
    return _state_dict(held, path)


def _state_dict(held: Any, path: str) -> dict[str, Tensor]:
    if isinstance(held, dict):
        held = next((held[name] for name in UNDER if name in held), held)
    if not isinstance(held, dict) or not held or not all(isinstance(value, Tensor) for value in held.values()):
        got = f"one with {', '.join(map(str, list(held)[:4]))}" if isinstance(held, dict) else type(held).__name__
        raise SpecError(f"{path} must hold a state dict, alone or under {' or '.join(UNDER)}, got {got}")
    return held
