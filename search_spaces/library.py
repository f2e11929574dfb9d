"""Finds a study by its name in `studies/`, or in a user's own file.

What a study is made of is imported when one is asked for: the names alone are known at once.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.errors import SpecError
from trainables.trusted import named

if TYPE_CHECKING:
    from search_spaces.study import Study

RECORDS = "records"
"""The folder beside the file of a study that holds its records (`search_spaces/record.py`)."""


def names() -> list[str]:
    """Returns the named studies."""
    files = (Path(__file__).parent / "studies").glob("[a-z]*.py")
    return sorted(file.stem.replace("_", "-") for file in files)


def in_file(name: str) -> bool:
    """Returns whether a name is of a study in a user's file."""
    return re.search(r"\.(json|py(:\w+)?)$", name) is not None


def folder(name: str) -> Path:
    """Returns where the file of a study lies. `name`: of a named study, or of that file."""
    return Path(name).parent if in_file(name) else Path(__file__).parent / "studies"


def record_file(name: str, id: str) -> Path:
    """Returns where the record of an id is kept, beside the study's file. `name`: as `folder` has it."""
    return folder(name) / RECORDS / f"{id}.json"


def records() -> list[Path]:
    """Returns the records of the named studies."""
    return sorted((folder("") / RECORDS).glob("*.json"))


def find(name: str, others: Iterable[str] = ()) -> Study:
    """Returns the study of a name, of a file (`./mine.py`) or another name in it (`./mine.py:ordered`), of JSON.

    `others`: names that a person may have meant, beside those of named studies.
    Raises: SpecError for an unknown name or a file that holds no study, SourceError for a file that does not run.
    """
    if in_file(name):
        path, _, variable = name.partition(".py:")
        with named():
            return _of_json(Path(name)) if name.endswith(".json") else _of_file(path, variable or "study")
    if name not in names():
        from trainables.sentence import did_you_mean

        file = Path(f"{name}.py")
        hint = f"; did you mean ./{file}?" if file.is_file() else did_you_mean(name, [*names(), *others])
        raise SpecError(f"no study {name!r}{hint} (locus studies lists all)")
    module = importlib.import_module(f"search_spaces.studies.{name.replace('-', '_')}")
    return module.study  # type: ignore[no-any-return]


def shadowed(name: str) -> str:
    """Returns the named study whose name a file's study has, though it is another one; empty if there is none."""
    study = find(name) if in_file(name) else None
    return study.name if study and study.name in names() and study != find(study.name) else ""


def _no_file(path: Path) -> SpecError:
    from trainables.sentence import near_path

    return SpecError(f"no file {path}{near_path(path)}")


def _of_json(path: Path) -> Study:
    from search_spaces.study import Study

    if not path.is_file():
        raise _no_file(path)
    try:
        return Study.read(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise SpecError(f"{path} must hold a study as JSON, got {error}") from None


def _of_file(name: str, variable: str) -> Study:
    from search_spaces.study import Study
    from trainables.encodings import EncodingSpec
    from trainables.source import load, text_of

    path = Path(name if name.endswith(".py") else f"{name}.py")
    if not path.is_file():
        raise _no_file(path)
    module = load(path.name, text_of(path), again=True)
    variables = vars(module)
    study = variables.get(variable)
    if not isinstance(study, Study):
        others = ", ".join(f"{path}:{name}" for name, value in variables.items() if isinstance(value, Study))
        beside = f"; it has {others}" if others else ""
        classes = {name: value for name, value in variables.items() if isinstance(value, type) and not others}
        for name in [name for name, value in classes.items() if value.__module__ == module.__name__]:
            if issubclass(classes[name], EncodingSpec):
                beside = f"; {name} is an encoding: locus run (or check) encodings --arms {path}:{name}"
        raise SpecError(f"{path} must define {variable} = Study(...), got {study!r}{beside}")
    return study
