"""An encoding from a user's own file: the recipe carries the text of that file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from trainables.encodings.encoding import EncodingSpec, InjectionPoint, ReservedChannels, Shape, Widths
from trainables.source import load
from trainables.spec import Spec, SpecError


class OwnEncoding(EncodingSpec):
    """An encoding from a user's file: its kind is "file.py:Class", and `source` is the text of that file.

    The fields of the class are fields of this node (`encoding.turns`); the class adds defaults and checks them.
    """

    model_config = ConfigDict(extra="allow")

    kind: str = Field(pattern=r"^[\w.-]+\.py:\w+$", description="written as 'file.py:Class'")
    source: str = Field(description="the text of the file")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: Any) -> Any:
        if isinstance(value, dict) and {"kind", "source"} <= value.keys():
            made = _own_class(value["kind"], value["source"]).read(_fields(value))
            return {**value, **{name: getattr(made, name) for name in made.fields()}}
        return value

    @property
    def spec(self) -> EncodingSpec:
        """The user's own spec, an instance of the class that `kind` names."""
        return _own_class(self.kind, self.source).read(_fields(self.model_extra or {}))

    @property
    def is_noop(self) -> bool:
        return self.spec.is_noop

    @property
    def label(self) -> str:
        return self.kind.rpartition(":")[2]

    @property
    def shrinks(self) -> bool:
        return self.spec.shrinks

    @property
    def any_grid(self) -> bool:
        return self.spec.any_grid

    @property
    def injection_points(self) -> frozenset[InjectionPoint]:
        return self.spec.injection_points

    @property
    def modifies_qk(self) -> bool:
        return self.spec.modifies_qk

    @property
    def reads_qk(self) -> bool:
        return self.spec.reads_qk

    @property
    def saved_pairs(self) -> int:
        return self.spec.saved_pairs

    def check(self, shape: Shape) -> None:
        self.spec.check(shape)

    def reserved(self, widths: Widths) -> ReservedChannels:
        return self.spec.reserved(widths)

    def parameters(self, shape: Shape) -> int:
        return self.spec.parameters(shape)

    def trainable_parameters(self, shape: Shape) -> int:
        return self.spec.trainable_parameters(shape)

    def identity(self) -> Any:
        return self.spec.identity()


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the class's fields as plain JSON."""
    return {name: _plain(value) for name, value in values.items() if name not in ("kind", "source")}


def _plain(value: Any) -> Any:
    return value.plain() if isinstance(value, Spec) else value


def _own_class(kind: str, source: str) -> type[EncodingSpec]:
    file, _, name = kind.partition(":")
    found = getattr(load(file, source), name, None)
    if not (isinstance(found, type) and issubclass(found, EncodingSpec)):
        raise SpecError(f"encoding.kind must name an EncodingSpec in {file}, got {name!r}")
    if found.model_fields["kind"].default != kind:
        raise SpecError(f"{name}.kind in {file} must be {kind!r}, got {found.model_fields['kind'].default!r}")
    return found


def is_own(kind: object) -> bool:
    """True for a kind such as "mine.py:Spiral"."""
    return isinstance(kind, str) and ".py:" in kind


def carry_source(value: Any) -> Any:
    """Turns a user's spec into an OwnEncoding with the source of the file that defines its class."""
    if isinstance(value, EncodingSpec) and is_own(value.kind) and not isinstance(value, OwnEncoding):
        loaded = getattr(sys.modules[type(value).__module__], "__source__", None)
        return OwnEncoding(**value.plain(), source=loaded or source_of(value.kind))
    return value


def source_of(kind: str) -> str:
    """The text of a kind's file: the one being loaded, else the one in the working folder, else the one loaded last."""
    file = kind.partition(":")[0]
    modules = [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
    loaded = [names for names in modules if "__source__" in names and names["__file__"] == file]
    loading = [names for names in loaded if "__loading__" in names]
    if not loading and Path(file).is_file():
        return Path(file).read_text()
    if not loaded:
        raise SpecError(f"encoding.kind must name a file of the working folder, got {kind!r}")
    return str((loading or loaded)[-1]["__source__"])


def carry(values: Any) -> Any:
    """`{path: value}` as plain values, with the source of the file wherever a value names an own encoding."""
    if not isinstance(values, Mapping):
        return values
    carried: dict[str, Any] = {}
    for path, value in values.items():
        given = carry_source(value)
        carried[path] = _plain(given)
        beside = path.removesuffix("kind") + "source"
        if path.endswith("kind") and is_own(given) and beside not in values:
            carried[beside] = source_of(given)
    return carried


Values = Annotated[dict[str, Any], BeforeValidator(carry)]
"""`{path: value}` to be put on a recipe: the values of arms, points and budgets."""
