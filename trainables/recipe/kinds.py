"""What a recipe can say at a node: the kinds of the node, and the fields of each kind. For people who look."""

from __future__ import annotations

import difflib
import inspect
import types
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from trainables.recipe.recipe import Recipe
from trainables.spec import Spec, SpecError


@dataclass(frozen=True)
class FieldWords:
    """A field in words: its name, what it is by default, and what it may be."""

    name: str
    default: Any
    required: bool
    may_be: str


@cache
def nodes() -> dict[str, dict[str, type[Spec]]]:
    """Returns the kinds of every node of a recipe: `nodes()["encoding"]["peg"]` is the class `PEG`."""
    outer = {name: _kinds(info) for name, info in Recipe.model_fields.items()}
    inner: dict[str, dict[str, type[Spec]]] = {}
    for node, specs in outer.items():
        for spec in specs.values():
            for name, info in spec.model_fields.items():
                if len(kinds := _kinds(info)) > 1:
                    inner.setdefault(f"{node}.{name}", kinds)
    return {name: kinds for name, kinds in (outer | inner).items() if kinds}


def kind(path: str) -> type[Spec]:
    """Returns the class of a kind, such as `encoding.peg`; of a node that has one kind, the node's name is enough.

    Raises: SpecError for a path that names none, with those that are near.
    """
    kinds = nodes()
    node, _, name = path.rpartition(".")
    if name in kinds.get(node, {}):
        return kinds[node][name]
    if len(kinds.get(path, {})) == 1:
        return next(iter(kinds[path].values()))
    if path in kinds:
        raise SpecError(f"{path} must be followed by a kind ({', '.join(kinds[path])}), got {path!r}")
    if node in kinds:
        raise SpecError(f"{node} must be of a kind ({', '.join(kinds[node])}), got {name!r}")
    near = difflib.get_close_matches(path, [f"{node}.{name}" for node, names in kinds.items() for name in names], n=3)
    raise SpecError(f"a kind must be one of a recipe's, such as {', '.join(near or ['encoding.peg'])}, got {path!r}")


def fields(cls: type[Spec]) -> list[FieldWords]:
    """Returns the fields of a kind, without the kind itself."""
    rows = []
    for name, info in cls.model_fields.items():
        if name not in ("kind", "source"):
            kinds = _kinds(info)
            may_be = info.description or (f"a node of kind {', '.join(kinds)}" if len(kinds) > 1 else "")
            if not may_be and bool in _parts(info.annotation):
                may_be = "true or false"
            default = None if info.is_required() else info.get_default(call_default_factory=True)
            rows.append(FieldWords(name, default, info.is_required(), may_be))
    return rows


def documentation(cls: type[Spec]) -> str:
    """Returns what a kind is, with its units and its source: its docstring."""
    return inspect.cleandoc(cls.__doc__ or "")


def _kinds(info: FieldInfo) -> dict[str, type[Spec]]:
    specs = [spec for spec in _parts(info.annotation) if inspect.isclass(spec) and issubclass(spec, Spec)]
    kinds = {spec.model_fields["kind"].default: spec for spec in specs if "kind" in spec.model_fields}
    return {name: spec for name, spec in kinds.items() if isinstance(name, str)}  # a user's own kinds have no default


def _parts(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [part for argument in get_args(annotation) for part in _parts(argument)]
    return [annotation]
