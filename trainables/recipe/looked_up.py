"""Values with what lies at their paths of images: read once, where they are given, and kept with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.data import LISTED
from trainables.spec import SpecError

_READ = {cls.model_fields["kind"].default: cls for cls in LISTED if cls.READ}
FOUND = frozenset(f"data.{name}" for cls in _READ.values() for name in cls.READ)
"""The paths of what is read."""


def looked_up(values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Returns plain values with what is read from the images that they name, and the same for parents and teachers.

    A path without a digest is read; with one it stays as it is. `kind`: that of the data of the recipe on which the
    values are put. A path that cannot be read is left to the recipe, which says why.
    Cost: that of `folder.scan` for a path without a digest.
    """
    completed, data = dict(values), values.get("data")
    node = data if isinstance(data, Mapping) else {}
    kind = values.get("data.kind", node.get("kind", kind))
    if "data.path" in values:
        path, digest = values["data.path"], values.get("data.digest")
    else:
        path, digest = node.get("path"), values.get("data.digest", node.get("digest"))
    if kind in _READ and path and not digest:
        try:
            spec = _READ[kind].read({"path": path}).plain()
            read = {f"data.{name}": spec[name] for name in ("path", *_READ[kind].READ)}
        except SpecError:
            read = {}
        for name in read.keys() & values.keys() & FOUND:
            if values[name] != read[name]:
                raise SpecError(f"{name} must be left out, as {read[name]} is read from {path}, got {values[name]}")
        completed |= read
    for use in ("init", "teacher"):
        inner, other = values.get(f"{use}.values"), values.get(use)
        if isinstance(inner, Mapping):
            completed[f"{use}.values"] = looked_up(inner, kind)
        if isinstance(other, Mapping) and isinstance(other.get("values"), Mapping):
            completed[use] = {**other, "values": looked_up(other["values"], kind)}
    return completed
