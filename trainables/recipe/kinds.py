"""What a recipe can say at a node: the kinds of the node, and the fields of each kind. For people who look."""

from __future__ import annotations

import difflib
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass
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


def nodes() -> dict[str, dict[str, type[Spec]]]:
    """Returns the kinds of every node of a recipe: `nodes()["encoding"]["peg"]` is the class `PEG`."""
    outer = {name: _kinds(info) for name, info in Recipe.model_fields.items()}
    inner = {f"{node}.{name}": _kinds(info) for node, name, info in _inner(outer)}
    return {name: kinds for name, kinds in (outer | inner).items() if kinds}


def kind(path: str) -> type[Spec]:
    """Returns the class of a kind, such as `encoding.peg`.

    Of a node of one kind its name is enough, such as `optimizer`.

    Raises: SpecError for a path that names none, with those that are near.
    """
    known = nodes()
    node, _, name = path.rpartition(".")
    if name in known.get(node, {}):
        return known[node][name]
    if len(known.get(path, {})) == 1:
        return next(iter(known[path].values()))
    if path in known:
        raise SpecError(f"{path} must be followed by a kind ({', '.join(known[path])}), got {path!r}")
    if node in known:
        raise SpecError(f"{node} must be of a kind ({', '.join(known[node])}), got {name!r}")
    near = difflib.get_close_matches(
        path, [f"{each_node}.{each}" for each_node in known for each in known[each_node]], n=3
    )
    raise SpecError(f"a kind must be one of a recipe's, such as {', '.join(near or ['encoding.peg'])}, got {path!r}")


def fields(cls: type[Spec]) -> list[FieldWords]:
    """Returns the fields of a kind, without the kind itself."""
    return [_words(name, info) for name, info in cls.model_fields.items() if name not in ("kind", "source")]


def documentation(cls: type[Spec]) -> str:
    """Returns what a kind is, with its units and its source: its docstring."""
    return inspect.cleandoc(cls.__doc__ or "")


def _words(name: str, info: FieldInfo) -> FieldWords:
    kinds = _kinds(info)
    words = info.description or (f"a node of kind {', '.join(kinds)}" if len(kinds) > 1 else "")
    if not words and bool in _parts(info.annotation):
        words = "true or false"
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    return FieldWords(name, default, info.is_required(), words)


def _kinds(info: FieldInfo) -> dict[str, type[Spec]]:
    """Returns the specs that a field may hold, by their kind."""
    specs = [spec for spec in _parts(info.annotation) if inspect.isclass(spec) and issubclass(spec, Spec)]
    own = {spec.model_fields["kind"].default: spec for spec in specs if "kind" in spec.model_fields}
    return {name: spec for name, spec in own.items() if isinstance(name, str)}  # a user's own kinds have no default


def _inner(outer: dict[str, dict[str, type[Spec]]]) -> Iterator[tuple[str, str, FieldInfo]]:
    """Yields the fields of kinds that have kinds themselves, each node and name once."""
    seen: set[tuple[str, str]] = set()
    for node, kinds in outer.items():
        for cls in kinds.values():
            for name, info in cls.model_fields.items():
                if (node, name) not in seen and len(_kinds(info)) > 1:
                    seen.add((node, name))
                    yield node, name, info


def _parts(annotation: Any) -> list[Any]:
    """Returns the types of which an annotation is made."""
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [part for argument in get_args(annotation) for part in _parts(argument)]
    return [annotation]
