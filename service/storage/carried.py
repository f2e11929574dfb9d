"""The code that a study in a home carries: the texts of files with classes of somebody's own. Nothing of it is run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.storage.home import Home
from service.storage.plain_json import plain_json
from trainables.own import is_own
from trainables.whole_files import unsealed


def carried(home: Home, id: str) -> dict[tuple[str, str], None]:
    """The names and texts of the files that a study's definition, its journal and its answers carry, each once."""
    files = home.study(id)
    lines = _bytes(files.journal).splitlines()
    values = [_value(unsealed(_bytes(files.study)) or b""), *map(_value, lines)]
    runs = {value["run"] for value in values if isinstance(value, dict) and isinstance(value.get("run"), str)}
    answers = [path for path in home.outcomes.glob("*/*.json") if path.parent.name in runs]
    values += [_value(unsealed(_bytes(path)) or b"") for path in answers]
    return dict.fromkeys(found for value in values for found in _sources(value))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _value(content: bytes) -> Any:
    try:
        return plain_json(content)
    except ValueError:
        return None


def _sources(value: Any) -> Iterator[tuple[str, str]]:
    """Each kind of somebody's own in a plain value, with the text beside it: of a node, or of paths to one."""
    if isinstance(value, list):
        for item in value:
            yield from _sources(item)
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        beside = value.get(f"{name.removesuffix('kind')}source")
        if name.endswith("kind") and is_own(item) and isinstance(beside, str):
            yield item.partition(":")[0], beside
        yield from _sources(item)
