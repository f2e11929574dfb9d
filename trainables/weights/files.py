"""Weights from a user's file: identified by its content, read without running code from it, found by their names."""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as from_safetensors
from torch import Tensor
from torch.serialization import safe_globals

from trainables.recipe.init_from import INDEX, weight_files
from trainables.spec import LocusError
from trainables.weights.load import HEADS

ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".pth.tar")
"""How names of torch's files end; timm's scripts write the last, Lightning the one before it."""
WRAPPERS = re.compile(r"(?<![^.])(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
"""What torch.compile, FSDP and activation checkpointing add to names, also inside them."""
DEEPEST = 8
"""How deep the dictionaries of a file are searched for tensors."""
HUGGING_FACE = "embeddings.patch_embeddings."
"""A part of the names that Hugging Face's own ViT, DeiT, Swin and DINOv2 have."""
SHOWN = 4
"""How many names an error shows."""


class _LeftOut:
    """Stands for an object of a file that is no tensor. It takes anything and does nothing."""

    def __init__(self, *args: Any) -> None:
        """Takes what the object would be made from."""

    def __setstate__(self, state: Any) -> None:
        """Takes what the object would hold."""


def _empty(*_: Any) -> dict[Any, Any]:
    """Stands for a defaultdict, whose items torch then sets as those of a dict."""
    return {}


_PATHS = ("PosixPath", "WindowsPath", "Path", "PurePosixPath", "PureWindowsPath", "PurePath")
_ARRAYS = ("scalar", "_reconstruct")
HARMLESS = (
    "argparse.Namespace", "types.SimpleNamespace", "numpy.dtype", "numpy.ndarray",
    *(f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in _ARRAYS),
    *(f"{module}.{name}" for module in ("pathlib", "pathlib._local") for name in _PATHS),  # the second: Python 3.13
    *(f"datetime.{name}" for name in ("date", "datetime", "time", "timedelta", "timezone")),
    *(f"builtins.{name}" for name in ("int", "float", "bool", "str", "list", "dict", "tuple")),
)  # fmt: skip
"""What training scripts keep beside weights: options, numbers of numpy, paths, dates. They are left out, not made."""
SAFE: list[Any] = [*((_LeftOut, name) for name in HARMLESS), (_empty, "collections.defaultdict")]


@dataclass(frozen=True)
class Read:
    """Weights by the names of the model, and where they stood in the file.

    `entry`: what came before their names, empty if nothing did. `left_out`: what else the file holds, in short.
    """

    weights: dict[str, Tensor]
    entry: str
    left_out: tuple[str, ...]


def read_weights(
    path: str | Path, sha256: str, names: Collection[str], entry: str | None = None, node: str = "init"
) -> Read:
    """Returns the weights of a model in a file that torch or safetensors wrote, wherever in the file they are.

    `names`: those of the model's weights. What comes before them in the file (`model.`, `state_dict.module.`,
    `teacher.backbone.`) is removed. `entry`: the beginning of the names that are meant, in a file of several models.
    `node`: whose field `entry` is, for an error.

    Raises: LocusError if the file is not there, is another one, holds no weights of these names, or holds those of
    several models.
    """
    path = Path(path)
    if not path.is_file():
        raise LocusError(f"{path} must be a file of weights, got no such file")
    contents = {part: part.read_bytes() for part in weight_files(path)}
    digest = hashlib.sha256()
    for content in contents.values():
        digest.update(content)
    if (got := digest.hexdigest()) != sha256:
        raise LocusError(f"{path} must have the SHA-256 {sha256}, got {got}")
    parts = [_content(*part) for part in contents.items() if not part[0].name.endswith(INDEX)]
    tensors = {WRAPPERS.sub("", name): value for part in parts for name, value in _tensors(part)}
    if not tensors:
        raise LocusError(f"{path} must hold a state dict of tensors, got none")
    prefix, others = _prefix(path, tensors, names, entry, node)
    inside = [name for name in tensors if name.startswith(prefix) and not name.startswith(others)]
    weights = {name.removeprefix(prefix): tensors[name] for name in inside}
    left_out = sorted({_in_short(name, prefix) for name in tensors.keys() - inside})
    return Read(weights, prefix.removesuffix("."), tuple(left_out))


def _tensors(content: Any, before: str = "", depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    if isinstance(content, Tensor):
        yield before.removesuffix("."), content
    elif isinstance(content, dict) and depth < DEEPEST:
        for name, value in content.items():
            if isinstance(name, str):
                yield from _tensors(value, f"{before}{name}.", depth + 1)


def _prefix(
    path: Path, tensors: Collection[str], names: Collection[str], entry: str | None, node: str
) -> tuple[str, tuple[str, ...]]:
    """Returns what comes before the names of the model in a file, where most of them are; and of models inside it.

    Heads do not count. A prefix with less than half of the names of the fullest is no model.
    """
    backbone = {name for name in names if not name.startswith(HEADS)}
    counts = Counter[str]()
    for name in tensors:
        parts = name.split(".")
        ends = [end for end in range(len(parts)) if ".".join(parts[end:]) in backbone]
        counts.update(_dotted(".".join(parts[:end])) for end in ends)
    others = any(HUGGING_FACE in name for name in tensors)
    if others or not counts:
        must, got = f"hold weights under timm's names, such as {min(backbone)}", ", ".join([*tensors][:SHOWN])
        how = ", Hugging Face's names: give a file of timm's model, or init.kind from_timm" if others else ""
        raise LocusError(f"{path} must {must}, got {got}{how}")
    most = max(counts.values())
    prefixes = sorted(before for before, count in counts.items() if 2 * count >= most)
    fitting = prefixes if entry is None else [prefix for prefix in prefixes if prefix == _dotted(entry)]
    fitting = fitting or [prefix for prefix in prefixes if entry and prefix.startswith(_dotted(entry))]
    if len(fitting) != 1:
        choices = " or ".join(repr(prefix.removesuffix(".")) for prefix in prefixes)
        raise LocusError(f"{node}.entry must be {choices}, the models in {path}, got {entry!r}")
    (model,) = fitting
    return model, tuple(prefix for prefix in prefixes if prefix != model and prefix.startswith(model))


def _dotted(entry: str) -> str:
    return f"{entry.removesuffix('.')}." if entry else ""


def _in_short(name: str, prefix: str) -> str:
    """Returns where a name leaves a prefix: `teacher.head` for `teacher.head.mlp.0.bias` and `teacher.backbone.`."""
    parts, other = name.split("."), prefix.split(".")
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(parts, other, strict=False)))
    return ".".join(parts[: same + 1])


def _content(path: Path, content: bytes) -> Any:
    """Returns all that a file holds; what is no tensor may be left out."""
    begin, must = content[:200].lstrip().lower(), f"{path} must be a file of weights"
    if not content:
        raise LocusError(f"{must}, got an empty file")
    if begin.startswith(b"version https://git-lfs"):
        raise LocusError(f"{must}, got a pointer of Git LFS; fetch the file itself with: git lfs pull")
    if begin.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise LocusError(f"{must}, got a web page; fetch the file itself, not the page that shows it")
    how = f"readable as {path.suffix} without running code"
    must = f"{path} must be {how}, as torch.save(model.state_dict(), path) writes it"
    try:
        if path.suffix == ".safetensors":
            return from_safetensors(content)
        if path.name.endswith(ENDINGS):
            with safe_globals(SAFE), warnings.catch_warnings(action="ignore"):
                return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise LocusError(f"{must}, got {_stopped(path, error)}") from error
    except Exception as error:  # damaged bytes raise errors of many kinds
        got = "a TorchScript archive" if "TorchScript" in str(error) else f"a {type(error).__name__}"
        raise LocusError(f"{must}, got {got}") from error
    endings = f"{', '.join(ENDINGS)}, .safetensors or .index.json"
    save = "torch.save(timm.create_model(NAME, checkpoint_path=PATH).state_dict(), 'weights.pt')"
    how = f"; timm reads Google's: {save}" if path.suffix == ".npz" else ""
    raise LocusError(f"{path} must end in {endings}, got {path.suffix!r}{how}")


def _stopped(path: Path, error: Exception) -> str:
    """Returns what in a file needs code to be made, and the line that writes the weights alone."""
    match = re.search(r"GLOBAL (\S+)", str(error))
    if match is None:
        return "damaged or unknown content"
    inside = ".state_dict()" if match[1].startswith("torch.nn.") else "['model']"
    line = f"torch.save(torch.load({str(path)!r}, weights_only=False){inside}, 'weights.pt')"
    return f"{match[1]} in it; where you trust who wrote it, write its weights alone (this runs its code): {line}"
