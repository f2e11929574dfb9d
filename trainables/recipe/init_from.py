"""The initial weights of a training: drawn from the seed, of another recipe's run, from a file, or from timm."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trainables.own import Values
from trainables.spec import FilePath, LocusError, Spec, absolute, require

Part = Literal["encoding", "backbone", "all"]
_PART = "encoding, backbone or all"
Use = Literal["init", "teacher"]
"""What a run needs the weights of another one for."""
SHA256 = "the 64 hex digits of the file's SHA-256 (sha256sum FILE)"
ENTRY = "the beginning of the names of the weights that are meant (teacher), or null"
INDEX = ".index.json"
"""How the name of a list of several files ends, which hold the weights together (model.safetensors.index.json)."""


def known_by_content(value: Any) -> Any:
    """Refuses a file without its checksum; the message contains the checksum."""
    if isinstance(value, dict) and "sha256" not in value and os.path.isfile(absolute(str(value.get("path")))):
        sha256 = digest_of(Path(absolute(value["path"])))
        require(False, "sha256", f"given ({sha256} is that of {value['path']})", None)
    return value


def weight_files(path: Path) -> list[Path]:
    """Returns all files that a file of weights stands for: itself, and after an index those that it names, beside it.

    Raises: LocusError if an index cannot be read, or a file that it names is not there.
    """
    if not path.name.endswith(INDEX):
        return [path]
    try:
        names = sorted({str(name) for name in json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LocusError(f"{path} must be an index of files of weights (weight_map), got something else") from None
    for name in names:
        if Path(name).name != name or not (path.parent / name).is_file():
            raise LocusError(f"{path} must name files beside it, got {name!r}, which is not there")
    return [path, *(path.parent / name for name in names)]


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a file of weights; of an index: of it and its files in turn. Raises: as `weight_files`."""
    content = hashlib.sha256()
    for part in weight_files(path):
        with part.open("rb") as file:
            while block := file.read(2**20):
                content.update(block)
    return content.hexdigest()


class Fresh(Spec):
    """Initial weights drawn from the run's seed."""

    kind: Literal["fresh"] = Field(default="fresh", init=False)


class FromTrial(Spec):
    """The weights of another recipe's run at the same seed.

    `values` names only what the parent differs in, and is put on the child's own recipe. `part`: which weights to load.
    """

    kind: Literal["from_trial"] = Field(default="from_trial", init=False)
    values: Values = Field(description="{path: value} of what the parent differs in")
    part: Part = Field(default="all", description=_PART)


class FromFile(Spec):
    """The weights of a file: a state dict of this model or of timm's, as torch or safetensors wrote it.

    The file is identified by its content; where it lies is no part of a run's key. `part`: which weights to load.
    `entry`: in a file with several models, the beginning of the names of the one that is meant, such as `model_ema`
    (the moving average, which timm's and DeiT's scripts keep beside the weights) or `teacher` (of DINO's two).
    """

    kind: Literal["from_file"] = Field(default="from_file", init=False)
    path: FilePath = Field(description="the path of a file of weights")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description=SHA256)
    part: Part = Field(default="all", description=_PART)
    entry: str | None = Field(default=None, description=ENTRY)

    _digest = model_validator(mode="before")(known_by_content)


class FromTimm(Spec):
    """Weights that timm fetches, which needs a network or timm's cache. `part`: which weights to load.

    `sha256`: the checksum of the state dict, which every run records (`init_sha256` of its environment). If it is
    given, weights with another one are refused.
    """

    kind: Literal["from_timm"] = Field(default="from_timm", init=False)
    name: str = Field(
        min_length=1, description="the name of a model with weights in timm (deit_tiny_patch16_224.fb_in1k)"
    )
    part: Part = Field(default="all", description=_PART)
    sha256: str | None = Field(
        default=None, pattern="^[0-9a-f]{64}$", description="the 64 hex digits of a run's init_sha256, or null"
    )


Init = Annotated[Fresh | FromTrial | FromFile | FromTimm, Field(discriminator="kind")]
