"""Frozen, strict values; an error in one of them is one sentence with a path.

Everything a user writes (recipes, spaces, studies, claims) is a `Spec`: a pydantic model that cannot change, takes no
unknown field and equals its own JSON. A field's description says what is legal ("a positive length in patches");
errors quote it: `encoding.gamma must be a positive length in patches, got 0`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, dataclass_transform

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from trainables.errors import LocusError, SpecError
from trainables.sentence import OWN, known, models, no_field, sentence_of, short, tag_of


def require(holds: bool, path: str, must: str, got: object) -> None:
    """Refuses a value inside a validator: `path must be <must>, got <got>`.

    Raises: an error to which pydantic adds the path of the node.
    """
    if not holds:
        context = {"path": path, "must": must, "got": short(got)}
        raise PydanticCustomError("require", "{path} must be {must}, got {got}", context)


def in_order(values: tuple[Any, ...], *, by: Callable[[Any], int] | None = None) -> tuple[Any, ...]:
    """Returns the sorted values of a list, so that equal lists are written in one way; refuses doubles (`require`)."""
    require(len(set(values)) == len(values), "", "without doubles", list(values))
    return tuple(sorted(values, key=by))


if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


@dataclass_transform(kw_only_default=False, frozen_default=True, field_specifiers=(Field,))
class _SpecMeta(ModelMetaclass):
    """Lets a spec be written with positional arguments, in the order of its fields, and fail with a SpecError."""

    def __call__(cls, *args: Any, **values: Any) -> Any:  # noqa: N805 (a metaclass)
        fields: dict[str, FieldInfo] = cls.model_fields  # type: ignore[attr-defined]
        free = {name: field for name, field in fields.items() if name != "kind" and field.init is not False}
        names = [name for name, field in free.items() if not field.kw_only]
        if len(args) > len(names):
            raise SpecError(f"{cls.__name__} takes at most {len(names)} values ({', '.join(names)}), got {len(args)}")
        if args and isinstance(args[0], str | os.PathLike) and "path" in names[1:]:
            path = os.fspath(args[0])
            raise SpecError(f"{cls.__name__} must be given its path by name: {cls.__name__}(path={path!r})")
        values = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in values.items()}
        with sentences(cls):  # type: ignore[arg-type]
            return super().__call__(**dict(zip(names, args, strict=False)), **values)


class Spec(BaseModel, metaclass=_SpecMeta):
    """A frozen, strict, comparable value. Raises SpecError if it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    REVISION: ClassVar[int] = 1
    """To be raised when runs of this kind get other numbers: answers of an older revision are trained again."""
    READ: ClassVar[tuple[str, ...]] = ()
    """The fields that are read from what lies at the node's `path`, `digest` first, where they are not given."""

    def model_post_init(self, _: Any) -> None:
        """Shares the set of given fields, of which pydantic keeps one for each object: nobody asks which were given."""
        object.__setattr__(self, "__pydantic_fields_set__", _names(type(self)))

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        """Returns the spec of plain JSON values (lists for tuples allowed)."""
        return cls.read_text(json.dumps(value))

    @classmethod
    def read_text(cls, text: str) -> Self:
        with sentences(cls):
            return cls.model_validate_json(text)

    def plain(self) -> dict[str, Any]:
        """Returns the spec as plain JSON values: `cls.read(spec.plain()) == spec`."""
        return self.model_dump(mode="json")

    def put(self, values: Mapping[str, Any]) -> Self:
        """Returns a copy with `{path: value}` put in: all values apply, then one validation.

        Nodes come before what lies in them. Setting a `kind`, or a node as {"kind": ...}, starts that node from the
        defaults of its kind; the other fields of the node follow it. Setting a `path` without the digest that the node
        has drops what was read from the old path.
        """
        if not isinstance(values, Mapping):
            raise SpecError(f"put must be given {{path: value}}, got {short(values)}")
        tree = self.plain()
        for path in sorted(values, key=_in_turn):
            value, (node, _, last) = values[path], path.rpartition(".")
            require_plain(path, value)
            _set(tree, path, value.plain() if isinstance(value, Spec) else deepcopy(value))  # nodes get their defaults
            if last in ("kind", "source"):  # the text of a user's own file says what lies in its nodes
                _begin(type(self), tree, path.split(".")[:-1])
            elif last == "path":  # what was read lies at the old path, unless the new one has the same digest
                plain, member = _node(type(self), tree, path.split(".")[:-1])
                new_digest = values.get(f"{node}.digest" if node else "digest")
                if member and (not new_digest or plain.get("digest") != new_digest):
                    unread = member.unread(plain)
                    plain.clear()
                    plain.update(unread)
            elif isinstance(value, Mapping):
                _begin(type(self), tree, path.split("."))
        spec = type(self).read(tree)
        for name in type(spec).model_fields:  # a study may hold thousands of recipes: they share the nodes that equal
            new, old = getattr(spec, name), getattr(self, name)
            if isinstance(new, Spec) and isinstance(old, Spec) and new.model_dump_json() == old.model_dump_json():
                spec.__dict__[name] = old  # by their text, as `==` takes 1 for 1.0, whose keys differ
        return spec

    @classmethod
    def unread(cls, node: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the plain values of a node without what was read from its path."""
        return {name: value for name, value in node.items() if name not in cls.READ}

    @classmethod
    def nested(cls, node: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the plain defaults of the nodes that lie in a plain node, by name."""
        defaults = {name: field.default for name, field in cls.model_fields.items()}
        return {name: default.plain() for name, default in defaults.items() if isinstance(default, Spec)}

    def get(self, path: str) -> Any:
        """Returns the value at a path such as `encoding.parts.1.beta`."""
        node: Any = self
        for position, part in enumerate(path.split(".")):
            at = ".".join(path.split(".")[: position + 1])
            if isinstance(node, tuple) and part.isdigit() and int(part) < len(node):
                node = node[int(part)]
            elif isinstance(node, Spec) and part in node.fields():
                node = getattr(node, part)
            elif isinstance(node, Spec):
                raise SpecError(no_field(at, node.fields()))
            else:
                raise SpecError(f"no field '{at}'")
        return node

    def fields(self) -> list[str]:
        """Returns the names of this node's fields, `kind` first, those given by name alone last."""
        return [*known(type(self)), *(self.model_extra or {})]

    def identity(self) -> Any:
        """Returns what decides a result: every node's `kind` and the fields that differ from their defaults.

        A new field with a default therefore changes no key; fields marked `WHERE` (folders) are left out.
        """
        defaults = type(self).model_fields
        fields = {"kind": self.kind} if hasattr(self, "kind") else {}
        for name, field in defaults.items():
            value = getattr(self, name)
            if name == "kind" or WHERE in field.metadata:
                continue
            if isinstance(value, Spec) or field.is_required() or value != field.get_default(call_default_factory=True):
                fields[name] = _identity(value)
        return fields


@cache
def _names(cls: type[Spec]) -> set[str]:
    return set(cls.model_fields)


WHERE = "where"
"""Marks a field that holds the place of something, not its content: `Annotated[str, WHERE]`."""


def absolute(path: str) -> str:
    """Returns a path from the root on, `~` expanded."""
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
    """Returns the first hex digits of the SHA-256 of a plain value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def require_plain(path: str, value: Any) -> None:
    """Refuses an object that is no value of a recipe, such as one of a class that derives from no spec."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            require_plain(f"{path}.{name}", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            require_plain(f"{path}.{index}", item)
    elif isinstance(value, type):
        raise SpecError(f"{path} must be a value, got the class {value.__name__}; did you mean {value.__name__}()?")
    elif not (value is None or isinstance(value, bool | int | float | str | Spec)):
        name = type(value).__name__
        raise SpecError(f"{path} must be a number, a text, a list or a spec, got a {name}, which derives from no spec")


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
            raise SpecError(no_field(".".join(parents[: position + 1]), [*node] if isinstance(node, dict) else []))
    if isinstance(node, list):
        if not last.isdigit() or int(last) >= len(node):
            raise SpecError(f"no field '{path}'; the list has {len(node)} entries, counted from 0")
        node[int(last)] = value
    elif last == "kind":
        node.clear()
        node["kind"] = value
    else:
        node[last] = value


def _in_turn(path: str) -> tuple[int, bool, bool]:
    """Nodes come before what lies in them; of a node the kind first, then the path."""
    last = path.rpartition(".")[2]
    return path.count("."), last != "kind", last != "path"


def _begin(cls: Any, tree: Any, path: list[str]) -> None:
    """Adds to a node the nested nodes that it lacks, from the defaults of its kind, so that paths lead into them."""
    node, member = _node(cls, tree, path)
    for name, value in member.nested(node).items() if member else ():
        node.setdefault(name, value)


def _node(cls: Any, tree: Any, path: list[str]) -> tuple[Any, Any]:
    """Returns the node at a path of a plain tree, and its class; None where the class is not known."""
    node, member = tree, cls
    for part in path:
        if isinstance(node, list):
            node = node[int(part)]
        else:
            fields = member.model_fields if member is not None else {}
            node, member = node[part], fields[part].annotation if part in fields else None
        if isinstance(node, dict):
            tag = node.get("kind")
            tags = (OWN if ".py:" in str(tag) else tag, None)
            member = next((model for model in models(member) if tag_of(model) in tags), None)
    return node, member


@contextmanager
def sentences(cls: type[BaseModel]) -> Iterator[None]:
    """Turns pydantic's ValidationError for a class into our one sentence."""
    try:
        yield
    except ValidationError as error:
        raise SpecError(sentence_of(cls, error)) from None


__all__ = [
    "OWN", "WHERE", "Field", "FilePath", "LocusError", "Spec", "SpecError", "absolute", "digest", "in_order", "require",
    "require_plain", "sentences",
]  # fmt: skip
