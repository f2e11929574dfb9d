"""Weights from a user's file: identified by its content, read without running code from it."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_safetensors
from timm.models import clean_state_dict
from torch import Tensor

from trainables.spec import LocusError

INSIDE = ("model", "state_dict", "model_state_dict")
"""The keys under which training scripts put a state dict in a file with other contents."""


def read_weights(path: str | Path, sha256: str) -> dict[str, Tensor]:
    """The state dict of a file that torch (.pt, .pth, .bin) or safetensors wrote; also under `model` or `state_dict`.

    Prefixes of DDP and torch.compile (`module.`, `_orig_mod.`) are removed.

    Raises: LocusError where the file is not there, is another one, or holds no state dict.
    """
    path = Path(path)
    if not path.is_file():
        raise LocusError(f"{path} must be a file of weights, got no such file")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise LocusError(f"{path} must have the SHA-256 {sha256}, got {found}")
    held = _held(path, content)
    for name in INSIDE:
        if isinstance(held, dict) and isinstance(held.get(name), dict):
            held = held[name]
    if not isinstance(held, dict) or not held or not all(isinstance(value, Tensor) for value in held.values()):
        raise LocusError(f"{path} must hold a state dict of tensors, got something else")
    cleaned: dict[str, Tensor] = clean_state_dict(held)
    return cleaned


def _held(path: Path, content: bytes) -> Any:
    try:
        if path.suffix == ".safetensors":
            return from_safetensors(content)
        if path.suffix in (".pt", ".pth", ".bin"):
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, SafetensorError, RuntimeError, EOFError) as error:
        must = f"readable as {path.suffix} without running code, as torch.save(model.state_dict(), path) writes it"
        raise LocusError(f"{path} must be {must}, got a {type(error).__name__}") from error
    raise LocusError(f"{path} must end in .pt, .pth, .bin or .safetensors, got {path.suffix!r}")
