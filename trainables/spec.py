"""Frozen, strict values; an error in one of them is one sentence with a path.

Everything a user writes (recipes, spaces, studies, claims) is a `Spec`: a pydantic model that cannot change, takes no
unknown field and equals its own JSON. A field's description says what is legal ("a positive length in patches");
errors quote it: `encoding.gamma must be a positive length in patches, got 0`.
"""

from __future__ import annotations

import hashlib
import json
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self, dataclass_transform

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError


class LocusError(Exception):
    """A mistake that a user can correct: one line, exit code 2."""


class SpecError(LocusError):
    """A value that no study can use. Its text names the path, what is legal, and what was given.

    Not a ValueError: pydantic would wrap it and lose the path.
    """


def require(holds: bool, path: str, must: str, got: object) -> None:
    """Refuses a value inside a validator: `path must be <must>, got <got>`.

    Raises: an error to which pydantic adds the path of the node.
    """
    if not holds:
        context = {"path": path, "must": must, "got": _short(got)}
        raise PydanticCustomError("require", "{path} must be {must}, got {got}", context)


def in_order(values: tuple[Any, ...], *, by: Callable[[Any], int] | None = None) -> tuple[Any, ...]:
    """The sorted values of a list, so that equal lists are written in one way. Raises as `require` for doubles."""
    require(len(set(values)) == len(values), "", "without doubles", list(values))
    return tuple(sorted(values, key=by))


def _by_position(name: str, field: FieldInfo) -> bool:
    """Whether a value may be given by position."""
    return name != "kind" and field.init is not False and not field.kw_only


if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


@dataclass_transform(kw_only_default=False, frozen_default=True, field_specifiers=(Field,))
class _SpecMeta(ModelMetaclass):
    """Lets a spec be written with positional arguments, in the order of its fields, and fail with a SpecError.

    Fields made with `kw_only=True` are given by name alone.
    """

    def __call__(cls, *args: Any, **values: Any) -> Any:  # noqa: N805 (a metaclass)
        names = [name for name, field in cls.model_fields.items() if _by_position(name, field)]  # type: ignore[attr-defined]
        if len(args) > len(names):
            raise SpecError(f"{cls.__name__} takes at most {len(names)} values ({', '.join(names)}), got {len(args)}")
        with sentences(cls):  # type: ignore[arg-type]
            return super().__call__(**dict(zip(names, args, strict=False)), **values)


class Spec(BaseModel, metaclass=_SpecMeta):
    """A frozen, strict, comparable value. Raises SpecError where it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        """The spec of plain JSON values (lists for tuples allowed)."""
        with sentences(cls):
            return cls.model_validate_json(json.dumps(value))

    def plain(self) -> dict[str, Any]:
        """The spec as plain JSON values: `cls.read(spec.plain()) == spec`."""
        return self.model_dump(mode="json")

    def put(self, values: Mapping[str, Any]) -> Self:
        """A copy with `{path: value}` put in: all values apply, then one validation.

        Nodes come before what lies in them. Setting a `kind` starts that node from the defaults of its kind; the other
        fields of the node follow it.
        """
        tree = self.plain()
        for path in sorted(values, key=lambda path: (path.count("."), path.rpartition(".")[2] != "kind")):
            value = values[path]
            _set(tree, path, value.plain() if isinstance(value, Spec) else value)
            if path.rpartition(".")[2] == "kind":
                _begin(type(self), tree, path.split(".")[:-1])
        return type(self).read(tree)

    def get(self, path: str) -> Any:
        """The value at a path such as `encoding.parts.1.beta`."""
        node: Any = self
        for position, part in enumerate(path.split(".")):
            at = ".".join(path.split(".")[: position + 1])
            if isinstance(node, tuple) and part.isdigit() and int(part) < len(node):
                node = node[int(part)]
            elif isinstance(node, Spec) and part in node.fields():
                node = getattr(node, part)
            elif isinstance(node, Spec):
                raise SpecError(f"no field '{at}'; known: {', '.join(node.fields())}")
            else:
                raise SpecError(f"no field '{at}'")
        return node

    def fields(self) -> list[str]:
        """The names of this node's fields, `kind` first, those given by name alone last."""
        return [*_known(type(self)), *(self.model_extra or {})]

    def identity(self) -> Any:
        """What decides a result: every node's `kind` and the fields that differ from their defaults.

        A new field with a default therefore changes no key; fields marked `WHERE` (folders) are left out.
        """
        defaults = type(self).model_fields
        said = {"kind": self.kind} if hasattr(self, "kind") else {}
        for name, field in defaults.items():
            value = getattr(self, name)
            if name == "kind" or WHERE in field.metadata:
                continue
            if isinstance(value, Spec) or field.is_required() or value != field.get_default(call_default_factory=True):
                said[name] = _identity(value)
        return said


OWN = "own"
"""Stands for the kinds of the user's own in a list of kinds."""

WHERE = "where"
"""Marks a field that holds the place of something, not its content: `Annotated[str, WHERE]`."""


def absolute(path: str) -> str:
    """A path from the root on, `~` expanded."""
    return os.path.abspath(os.path.expanduser(path))


FilePath = Annotated[str, AfterValidator(absolute), WHERE]
"""Where a file or folder lies: relative to the working folder in which it is given, so that a worker finds it."""


def _identity(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.identity()
    if isinstance(value, Mapping):
        return {key: _identity(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_identity(item) for item in value]
    return value


def digest(value: Any, length: int = 16) -> str:
    """The first hex digits of the SHA-256 of a plain value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _set(tree: Any, path: str, value: Any) -> None:
    """Sets one value in a plain tree. Paths that lead nowhere are reported with what is known there."""
    *parents, last = path.split(".")
    node = tree
    for position, part in enumerate(parents):
        if isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        elif isinstance(node, dict) and isinstance(node.get(part), dict | list):
            node = node[part]
        else:
            known = f"; known: {', '.join(node)}" if isinstance(node, dict) else ""
            raise SpecError(f"no field {'.'.join(parents[: position + 1])!r}{known}")
    if isinstance(node, list):
        if not last.isdigit() or int(last) >= len(node):
            raise SpecError(f"no field '{path}'; the list has {len(node)} entries, counted from 0")
        node[int(last)] = value
    elif last == "kind":
        node.clear()
        node["kind"] = value
    else:
        node[last] = value


def _begin(cls: Any, tree: Any, path: list[str]) -> None:
    """Adds to a node whose kind was set the nested nodes of that kind's defaults, so that paths lead into them."""
    node, member = tree, cls
    for part in path:
        if isinstance(node, list):
            node = node[int(part)]
        else:
            node, member = node[part], member.model_fields[part].annotation if member else None
        if isinstance(node, dict):
            tag = node.get("kind")
            member = next((one for one in _models(member) if _tag(one) in (tag, None)), None)
    for name, field in member.model_fields.items() if member else ():
        if isinstance(field.default, Spec):
            node[name] = field.default.plain()


class sentences:  # noqa: N801 (used as a verb: `with sentences(Recipe)`)
    """Turns pydantic's ValidationError into our one sentence: `with sentences(Recipe): ...`."""

    def __init__(self, cls: type[BaseModel]) -> None:
        self.cls = cls

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ValidationError):
            raise SpecError(_sentence(self.cls, error)) from None


def _sentence(cls: type[BaseModel], error: ValidationError) -> str:
    detail = error.errors(include_url=False)[0]
    steps = list(_walk(cls, detail["loc"]))
    path = ".".join(name for name, _, _ in steps if name)
    got = _short(detail["input"])
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind == "require":
        return f"{_join(path, context['path'])} must be {context['must']}, got {context['got']}"
    if kind == "extra_forbidden":
        known = _known(steps[-1][1]) if steps[-1][1] else []
        return f"no field '{path}'; known: {', '.join(known)}"
    if kind == "missing":
        return f"{path} must be given"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        known = context.get("expected_tags", "").replace("'", "").replace(f", {OWN}", ", or file.py:Class")
        got = repr(context["tag"]) if "tag" in context else got
        return (
            f"{_join(path, 'kind')} must be one of {known}, got {got}"
            if known
            else f"{_join(path, 'kind')} must be given"
        )
    description = steps[-1][2] if steps else None
    must = description or detail["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"{path or cls.__name__} must be {must}, got {got}"


def _known(cls: type[BaseModel]) -> list[str]:
    fields = cls.model_fields
    return sorted(fields, key=lambda name: (name != "kind", bool(fields[name].kw_only)))


def _walk(cls: Any, loc: tuple[int | str, ...]) -> Iterator[tuple[str, Any, str | None]]:
    """The steps of a pydantic location: (name in our path or '', class the name stands in, what is legal there)."""
    here: Any = cls
    for step in loc:
        members = [member for member in _models(here)]
        tagged = [member for member in members if _tag(member) == step]
        if tagged:
            here = tagged[0]
            yield "", here, None
            continue
        owner = next((member for member in members if step in member.model_fields), members[0] if members else None)
        field = owner.model_fields.get(step) if owner is not None and isinstance(step, str) else None
        yield str(step), owner, field.description if field else None
        here = field.annotation if field else here


def _tag(cls: type[BaseModel]) -> Any:
    field = cls.model_fields.get("kind")
    if field is None:
        return None
    return OWN if field.is_required() else field.default


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every model class named in a type annotation."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield annotation
        return
    for argument in typing.get_args(annotation):
        yield from _models(argument)


def _join(path: str, rest: str) -> str:
    return f"{path}.{rest}" if path and rest else path or rest


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


__all__ = [
    "OWN", "WHERE", "Field", "FilePath", "LocusError", "Spec", "SpecError", "absolute", "digest", "in_order", "require",
    "sentences",
]  # fmt: skip
