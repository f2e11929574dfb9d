"""Adds a user's own encodings to the arms of a study: `./mine.py:Ramp`, or in Python `Ramp(std=0.5)`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from search_spaces.plans.ablation import Ablation
from search_spaces.words import listed, quoted, value_words
from trainables.encodings import EncodingSpec, OwnEncoding
from trainables.own import is_own
from trainables.sentence import near_path
from trainables.source import load, text_of
from trainables.spec import SpecError
from trainables.trusted import named

Arm = str | EncodingSpec | type[EncodingSpec]
"""The name of an arm, the class of a file (`./mine.py:Ramp`), or in Python an encoding or its class."""


def own_arms(given: Iterable[Arm]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Returns the names of arms, and the values of those that are encodings of a person's own, by their names.

    Such an arm is called by its class and by the values that are not its defaults: `Ramp`, `Ramp std=0.5`.
    Raises: SpecError for what is no arm, and for two of one name; SourceError for a file that does not run.
    """
    names: list[str] = []
    encodings: dict[str, dict[str, Any]] = {}
    for arm in given:
        encoding = _encoding(arm)
        name = str(arm) if encoding is None else re.sub(r"[\w.-]+\.py:", "", value_words(encoding)).replace(", ", "+")
        if encoding is not None:
            if name in encodings:
                raise SpecError(
                    f"arms must have names of their own, got two called {name!r}: rename one of the classes"
                )
            encodings[name] = {"encoding": encoding}
        names.append(name)
    return names, encodings


def beside(study: str, plan: Any, encodings: dict[str, dict[str, Any]]) -> Ablation:
    """Returns the plan of a study with further arms, encodings of a person's own.

    Raises: SpecError for a plan whose arms are not encodings alone, and for the name of an arm that is there.
    """
    must = f"arms of {study} must be some of its own"
    if not isinstance(plan, Ablation):
        raise SpecError(f"arms are those of an ablation, and {study} is a search; got {listed([*encodings])}")
    for name, values in plan.named.items():
        if others := [path for path in values if path.partition(".")[0] != "encoding"]:
            why = f"they differ in more than their encoding ({quoted(name)} sets {others[0]})"
            raise SpecError(f"{must}, because {why}, got {listed([*encodings])}")
    if not any({"encoding", "encoding.kind"} & {*values} for values in plan.named.values()):
        raise SpecError(f"{must}, because none of them is another kind of encoding, got {listed([*encodings])}")
    if double := {*encodings} & {*plan.named}:
        raise SpecError(f"arms must have names of their own, got {min(double)!r}, which {study} has")
    return plan.joined(encodings)


def _encoding(arm: Any) -> EncodingSpec | None:
    """Returns the encoding that an arm is; None for the name of one. Of a class, that with its defaults."""
    if isinstance(arm, type) and issubclass(arm, EncodingSpec):
        return arm.read({})
    if isinstance(arm, EncodingSpec):
        return arm
    if not isinstance(arm, str):
        raise SpecError(f"arms must be names, classes of files (./mine.py:Ramp) or encodings, got {arm!r}")
    if arm.endswith(".py"):
        raise SpecError(f"arms must name a class of {arm}, as in {arm}:Ramp")
    return _of_file(arm) if is_own(arm) else None


def _of_file(arm: str) -> EncodingSpec:
    path, _, name = arm.partition(".py:")
    file = Path(f"{path}.py")
    if not file.is_file():
        raise SpecError(f"no file {file}{near_path(file)}")
    source = text_of(file)
    with named():
        load(file.name, source)
    return OwnEncoding(kind=f"{file.name}:{name}", source=source).spec
