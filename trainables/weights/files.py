"""Weights from a user's file: identified by its content, read without running code from it."""

from __future__ import annotations

import argparse
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
from torch.serialization import safe_globals

from trainables.spec import LocusError

INSIDE = ("model", "state_dict", "model_state_dict")
"""The keys under which training scripts put a state dict in a file with other contents."""
INSIDE_EMA = ("model_ema", "state_dict_ema")
"""The keys of the moving average of the weights: DeiT's scripts have the first, timm's the second."""
ENDINGS = (".pt", ".pth", ".bin", ".pth.tar")
"""How names of torch's files end; timm's scripts write the last."""


def read_weights(path: str | Path, sha256: str, *, ema: bool = False) -> dict[str, Tensor]:
    """The state dict of a file that torch (.pt, .pth, .bin, .pth.tar) or safetensors wrote, or one inside of it.

    Other contents of a training script's file are left out. `ema`: the moving average of the weights instead.
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
    inside = [name for name in INSIDE_EMA if isinstance(held, dict) and isinstance(held.get(name), dict)]
    if ema and not inside:
        raise LocusError(f"{path} must hold averaged weights as {' or '.join(INSIDE_EMA)}, got none")
    for name in inside if ema else INSIDE:
        if isinstance(held, dict) and isinstance(held.get(name), dict):
            held = held[name]
    if not isinstance(held, dict) or not held or not all(isinstance(value, Tensor) for value in held.values()):
        got = f"averaged weights alone ({inside[0]}); set ema to true" if inside else "something else"
        raise LocusError(f"{path} must hold a state dict of tensors, got {got}")
    cleaned: dict[str, Tensor] = clean_state_dict(held)
    return cleaned


def _held(path: Path, content: bytes) -> Any:
    try:
        if path.suffix == ".safetensors":
            return from_safetensors(content)
        if path.name.endswith(ENDINGS):
            with safe_globals([argparse.Namespace]):  # timm's and DeiT's scripts keep their options in the file
                return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, SafetensorError, RuntimeError, EOFError) as error:
        must = f"readable as {path.suffix} without running code, as torch.save(model.state_dict(), path) writes it"
        raise LocusError(f"{path} must be {must}, got a {type(error).__name__}") from error
    raise LocusError(f"{path} must end in .pt, .pth, .bin, .pth.tar or .safetensors, got {path.suffix!r}")
