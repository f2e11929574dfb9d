"""What a run writes into its folder: `checkpoint.pt`, to resume from, and `weights.pt`, what it learned.

`weights_ema.pt` has the moving average of the weights, where the recipe asks for one. All three are written whole or
not at all, and hold nothing but tensors and plain values (`weights_only` reads them).
A file whose bytes have changed is never used: each holds checksums, and reading compares them.
`sources.json` says where weights from elsewhere came from; the run's environment records it.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trainables.spec import LocusError

CHECKPOINT = "checkpoint.pt"
WEIGHTS = "weights.pt"
EMA_WEIGHTS = "weights_ema.pt"
SOURCES = "sources.json"


class DamagedError(LocusError):
    """A file of tensors that is not as it was written."""


def packed(value: Any) -> bytes:
    """Returns tensors and plain values as the content of a file."""
    content = io.BytesIO()
    torch.save(value, content)
    return content.getvalue()


def write(path: Path, value: Any) -> None:
    """Writes tensors and plain values as `write_whole` does."""
    write_whole(path, packed(value))


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that after a crash it is the old one or the new one, never a part."""
    draft = path.with_name(path.name + ".tmp")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path, device: torch.device | str = "cpu") -> Any:
    """Returns what `write` wrote, its tensors on a device.

    Raises: DamagedError if bytes are missing or have changed.
    """
    content = io.BytesIO(path.read_bytes())
    try:
        with zipfile.ZipFile(content) as archive:
            broken = archive.testzip()  # torch.load compares no checksums
        if broken is None:
            content.seek(0)
            return torch.load(content, map_location=device, weights_only=True)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # damaged bytes raise errors of many kinds
        raise DamagedError(f"{path} is damaged ({error})") from None
    raise DamagedError(f"{path} is damaged (the checksum of {broken} differs)")


def record_sources(folder: Path, sources: Mapping[str, Any]) -> None:
    """Writes where weights from elsewhere came from, where there are any."""
    if sources:
        (folder / SOURCES).write_text(json.dumps(sources), encoding="utf-8")


def recorded_sources(folder: Path) -> dict[str, Any]:
    """Returns what `record_sources` wrote; nothing if it wrote nothing."""
    path = folder / SOURCES
    sources: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return sources
