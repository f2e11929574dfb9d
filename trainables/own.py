"""Specs from a user's own file: a kind is written "file.py:Class", and the recipe carries the text of that file.

Encodings and data sets use it alike. A field takes a spec from our list or from the user's file; if a value names a
kind of the user's file, the text of that file is stored beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Union

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from trainables.sentence import did_you_mean
from trainables.source import LOCUS, load, require_installed, sha256_of, text_of
from trainables.spec import OWN, Spec, SpecError, require_plain
from trainables.trusted import trust


class OwnSpec(Spec):
    """A spec of a class in a user's file; `source` is the text of that file.

    The fields of the class are fields of this node (`encoding.turns`); the class adds defaults and checks them.
    `NODE`: the field of a recipe where it stands. `BASE`: what the class must derive from.
    """

    model_config = ConfigDict(extra="allow")

    NODE: ClassVar[str]
    BASE: ClassVar[type[Spec]]

    kind: str = Field(pattern=r"^[\w.-]+\.py:\w+$", description="written as 'file.py:Class'")
    source: str = Field(repr=False, description="the text of the file")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: Any) -> Any:
        if isinstance(value, dict) and {"kind", "source"} <= value.keys():
            made = cls._own_class(value["kind"], value["source"]).read(_of_class(value))
            return {**value, **{name: getattr(made, name) for name in made.fields()}}
        return value

    @classmethod
    def _own_class(cls, kind: str, source: str) -> type[Spec]:
        """Returns the class that a kind names.

        Raises: SpecError if it is none, or not one for this node, or if its file uses code that does not travel.
        """
        file, _, name = kind.partition(":")
        module, base = vars(load(file, source)), cls.BASE.__name__
        spec = module.get(name)
        if not (isinstance(spec, type) and issubclass(spec, cls.BASE)):
            article, near = "an" if base[0] in "AEIOU" else "a", did_you_mean(name, module)
            raise SpecError(f"{cls.NODE}.kind must name {article} {base} in {file}, got {name!r}{near}")
        if spec.model_fields["kind"].default != kind:
            raise SpecError(f"{name}.kind in {file} must be {kind!r}, got {spec.model_fields['kind'].default!r}")
        if "source" in spec.model_fields:
            raise SpecError(f"{name} in {file} must have no field 'source', which is the text of the file")
        require_installed(file, source)
        return spec

    @classmethod
    def nested(cls, node: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the defaults of the nodes of the class that the node's `kind` names; none until `source` is there."""
        return cls._own_class(node["kind"], node["source"]).nested(node) if "source" in node else {}

    @classmethod
    def carried(cls, value: Any) -> Any:
        """Turns an instance of a user's class into an own spec, with the text of the file that defines the class."""
        if isinstance(value, Spec):
            _require_named(value, f"{cls.NODE}.kind")
        if isinstance(value, Spec) and _needs_source(value):
            return cls(**value.plain(), source=_source_beside(value, f"{cls.NODE}.kind"))
        return value

    def made(self) -> Any:
        """Returns the user's own spec: an instance of the class that `kind` names."""
        declared = {name: getattr(self, name) for name in type(self).model_fields}
        return self._own_class(self.kind, self.source).read(_of_class(declared | (self.model_extra or {})))

    @property
    def label(self) -> str:
        return self.kind.rpartition(":")[2]

    def identity(self) -> Any:
        return self.made().identity()


def is_own(kind: object) -> bool:
    """Returns True for a kind such as "mine.py:Spiral"."""
    return isinstance(kind, str) and ".py:" in kind


def one_of(listed: Iterable[type[Spec]], own: type[OwnSpec]) -> Any:
    """Returns the type of a field that holds a spec of a list, or one of the user's own, told apart by `kind`."""
    members = [Annotated[cls, Tag(cls.model_fields["kind"].default)] for cls in listed]
    either = Union[(*members, Annotated[own, Tag(OWN)])]  # type: ignore[valid-type]
    return Annotated[either, Discriminator(_tag), BeforeValidator(own.carried)]


def source_of(kind: str, path: str) -> str:
    """Returns the text of a kind's file: that being loaded, else that in the working folder, else that loaded last.

    Raises: SpecError that names the path of the kind.
    """
    file = kind.partition(":")[0]
    modules = [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
    loaded = [names for names in modules if "__source__" in names and names["__file__"] == Path(file).name]
    loading = [names for names in loaded if "__loading__" in names]
    if not loading and Path(file).is_file():
        return _trusted_text(Path(file))
    if not loaded:
        raise SpecError(f"{path} must name a file of the working folder, got {kind!r}")
    return str((loading or loaded)[-1]["__source__"])


def carry(values: Any) -> Any:
    """Returns `{path: value}` as plain values. If a value names a kind of a user's file, adds the text of that file."""
    if not isinstance(values, Mapping):
        return values
    carried: dict[str, Any] = {}
    for path, value in values.items():
        require_plain(path, value)
        if isinstance(value, Spec):
            _require_named(value, f"{path}.kind")
        carried[path] = _with_sources(_plain(value), path)
        if isinstance(value, Spec) and _needs_source(value):
            carried[path]["source"] = _source_beside(value, f"{path}.kind")
        beside = path.removesuffix("kind") + "source"
        if path.endswith("kind") and is_own(value):
            carried[path] = value.rpartition("/")[2]
            carried.setdefault(beside, values.get(beside) or source_of(value, path))
    return carried


def _with_sources(value: Any, path: str) -> Any:
    """Returns a plain value with the text of the file beside each kind of the user's own in it."""
    if isinstance(value, list | tuple):
        return type(value)(_with_sources(item, f"{path}.{index}") for index, item in enumerate(value))
    if not isinstance(value, Mapping):
        return value
    node = {name: _with_sources(item, f"{path}.{name}") for name, item in value.items()}
    if is_own(node.get("kind")) and "source" not in node:
        node |= {"source": source_of(node["kind"], f"{path}.kind"), "kind": node["kind"].rpartition("/")[2]}
    return node


Values = Annotated[dict[str, Any], BeforeValidator(carry)]
"""`{path: value}` to be put on a recipe: the values of arms, points and budgets."""


def _tag(value: Any) -> Any:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return OWN if is_own(kind) else kind


def _needs_source(value: Spec) -> bool:
    return is_own(getattr(value, "kind", None)) and not isinstance(value, OwnSpec)


def _require_named(value: Spec, path: str) -> None:
    """Refuses an object of a user's class that its kind does not name: it is stored by its kind, so another is made."""
    cls, kind = type(value), getattr(value, "kind", None)
    if kind is None or isinstance(value, OwnSpec) or cls.__module__.partition(".")[0] in LOCUS:
        return
    if not is_own(kind) or kind.rpartition(":")[2] != cls.__name__:
        raise SpecError(f'{path} must name {cls.__name__}, as in kind: str = "mine.py:{cls.__name__}", got {kind!r}')


def _source_beside(value: Any, path: str) -> str:
    """Returns the text of the file that defines a value's class. Raises: SpecError if its kind names another file."""
    cls, module = type(value), sys.modules[type(value).__module__]
    if loaded := getattr(module, "__source__", None):
        return str(loaded)
    file = Path(getattr(module, "__file__", None) or "")
    if file.name != value.kind.partition(":")[0]:
        got = f"{value.kind!r} and a class of {file.name or 'this session'}"
        must = f"{path} must name the file that defines {cls.__name__}"
        raise SpecError(f"{must}, got {got}: write it to that file, and import it")
    return _trusted_text(file)


def _trusted_text(file: Path) -> str:
    """Returns the text of a file that the person named, which is trusted from now on."""
    source = text_of(file)
    trust(sha256_of(file.name, source))
    return source


def _of_class(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in values.items() if name not in ("kind", "source")}


def _plain(value: Any) -> Any:
    return value.plain() if isinstance(value, Spec) else value
