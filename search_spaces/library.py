"""Finds a study by its name in `studies/`, or in a user's own file."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

from search_spaces.study import Study
from trainables.sentence import did_you_mean
from trainables.source import load
from trainables.spec import SpecError


def names() -> list[str]:
    """The named studies."""
    files = (Path(__file__).parent / "studies").glob("[a-z]*.py")
    return sorted(file.stem.replace("_", "-") for file in files)


def find(name: str) -> Study:
    """The study of a name, or of a file that defines `study` (`./mine.py`), or of a study's JSON.

    Raises: SpecError for an unknown name or a file that holds no study, SourceError for a file that does not run.
    """
    if name.endswith(".py"):
        return _of_file(Path(name))
    if name.endswith(".json"):
        return _of_json(Path(name))
    if name not in names():
        raise SpecError(f"no study {name!r}{did_you_mean(name, names())} (locus studies lists all)")
    module = importlib.import_module(f"search_spaces.studies.{name.replace('-', '_')}")
    return module.study  # type: ignore[no-any-return]


def shadowed(name: str) -> str:
    """The named study whose name a file's study has, though it is another one; empty where there is none."""
    study = find(name) if name.endswith((".py", ".json")) else None
    return study.name if study and study.name in names() and study != find(study.name) else ""


def _of_json(path: Path) -> Study:
    if not path.is_file():
        raise SpecError(f"no file {path}")
    try:
        return Study.read(json.loads(path.read_text()))
    except ValueError as error:
        raise SpecError(f"{path} must hold a study as JSON, got {error}") from None


def _of_file(path: Path) -> Study:
    if not path.is_file():
        raise SpecError(f"no file {path}")
    study = getattr(load(path.name, path.read_text()), "study", None)
    if not isinstance(study, Study):
        raise SpecError(f"{path} must define study = Study(...), got {study!r}")
    return study
