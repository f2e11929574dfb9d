"""What probes found, in a file beside each answer: `outcomes/<key>/<code>.<probe>.npz`. Reading needs numpy alone.

A file holds the digest of the probe's own code; it counts only if that is today's. It also holds the key of its run
and its own name, so that a file of another run in its place counts as damaged.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.storage.plain_json import plain_json
from trainables.recipe.findings import Findings, Probed, When
from trainables.spec import LocusError
from trainables.whole_files import write_whole

SAID = "said"
"""The name of the entry that holds everything but the arrays, as JSON."""
TIMES: tuple[When, When] = ("before", "after")
ODD = (
    AttributeError, EOFError, KeyError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What numpy and zipfile raise for damaged bytes: an unknown compression, an encrypted entry, a header that is none."""


class ProbeFileError(LocusError):
    """A file of a probe that is not as it was written."""


def write(path: Path, probed: Probed, code: str) -> None:
    """Writes what a probe found in a run, by the digest of the probe's code."""
    import numpy as np

    said: dict[str, Any] = {"code": code, "of": _of(path)}
    entries: dict[str, Any] = {}
    for when in TIMES:
        found = probed.at(when)
        said[when] = {"values": dict(found.values), "note": found.note}
        entries |= {f"{when}.{name}": array for name, array in found.arrays.items()}
    content = io.BytesIO()
    entries[SAID] = np.array(json.dumps(said))
    np.savez_compressed(content, allow_pickle=False, **entries)
    write_whole(path, content.getvalue())


def read(path: Path) -> tuple[str, Probed]:
    """The digest of a probe's code, and what it found. Raises: ProbeFileError for a file that is damaged."""
    import numpy as np

    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            said = plain_json(str(file[SAID]))
            if said["of"] != _of(path):
                raise ValueError(f"what it found in {said['of']}")
            arrays = {name: file[name] for name in file.files if name != SAID}
        before, after = (_findings(said[when], arrays, f"{when}.") for when in TIMES)
        return str(said["code"]), Probed(before, after)
    except ODD as error:
        raise ProbeFileError(f"{path.name} must be as a probe wrote it, got {type(error).__name__}: {error}") from None


def _of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def kept(path: Path, code: str) -> Probed | None:
    """What a probe of this code found; None if there is no such file, or it is damaged, or of other code."""
    if not path.exists():
        return None
    try:
        known, found = read(path)
    except ProbeFileError:
        return None
    return found if known == code else None


def _findings(said: Mapping[str, Any], arrays: Mapping[str, Any], start: str) -> Findings:
    mine = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
    return Findings({name: float(value) for name, value in said["values"].items()}, mine, said["note"])
