"""What every encoding's spec must say, of the house or of one's own: its name, its shape, and where it cannot stand.

A `Shape` is a ViT as an encoding sees it before anything is built; counts of parameters and refusals need no torch.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from trainables.source import load
from trainables.spec import Spec, SpecError


@dataclass(frozen=True)
class Widths:
    """The widths an encoding will see: channels of a token, heads, channels a head."""

    dim: int
    heads: int
    head_dim: int


@dataclass(frozen=True)
class Takes:
    """How many channels an encoding takes from the content: of a token, and a head's query, key and value."""

    tokens: int = 0
    q: int = 0
    k: int = 0
    v: int = 0

    def __add__(self, other: Takes) -> Takes:
        return Takes(self.tokens + other.tokens, self.q + other.q, self.k + other.k, self.v + other.v)


@dataclass(frozen=True)
class Shape:
    """Widths of a ViT, its number of blocks, and its grid of patches after `prefix` tokens."""

    widths: Widths
    depth: int
    rows: int
    columns: int
    prefix: int

    @property
    def tokens(self) -> int:
        """How many tokens a block sees."""
        return self.rows * self.columns + self.prefix


class EncodingSpec(Spec):
    """One position encoding with its numbers.

    An encoding of one's own derives from this in a file of its own, gives `kind` the default "file.py:Class" and has a
    method `build(widths, grid, depth)` that returns a `trainables.encoding.PositionEncoding`.
    """

    kind: str

    @property
    def idle(self) -> bool:
        """True where the encoding does nothing, so that a recipe with it equals one without it."""
        return False

    @property
    def label(self) -> str:
        """The name in tables and MLflow."""
        return self.kind

    @property
    def shrinks(self) -> bool:
        """True where it returns a smaller grid."""
        return False

    @property
    def any_grid(self) -> bool:
        """True where it acts on whatever grid the tokens stand on, also on one that a part before it made smaller."""
        return False

    @property
    def only_first(self) -> bool:
        """True where it acts before the first block and nowhere else."""
        return False

    @property
    def pairs(self) -> int:
        """How many numbers each pair of tokens keeps for the gradient, a head and block; fused attention keeps none."""
        return 0

    def fit(self, shape: Shape) -> None:
        """Complains with `require` where this encoding cannot stand in a ViT of this shape."""

    def takes(self, widths: Widths) -> Takes:
        """The channels that position takes from the content."""
        return Takes()

    def parameters(self, shape: Shape) -> int:
        """How many parameters it has, for the plan; an encoding of one's own that does not say counts for nothing."""
        return 0

    def identity(self) -> Any:
        """As `Spec.identity`, but a node that is its default goes unsaid: what is new leaves the keys as they are."""
        fields = type(self).model_fields
        unsaid = {
            name
            for name, field in fields.items()
            if isinstance(field.default, Spec) and getattr(self, name) == field.default
        }
        return {name: value for name, value in super().identity().items() if name not in unsaid}


class OwnEncoding(EncodingSpec):
    """An encoding from a user's file: its kind is "file.py:Class", and it carries that file's source wherever it goes.

    The knobs of the class are fields of this node (`encoding.turns`), completed and checked by the class.
    """

    model_config = ConfigDict(extra="allow")

    kind: str = Field(pattern=r"^[\w.-]+\.py:\w+$", description="written as 'file.py:Class'")
    source: str = Field(description="the text of the file")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: Any) -> Any:
        if isinstance(value, dict) and {"kind", "source"} <= value.keys():
            knobs = {name: item for name, item in value.items() if name not in ("kind", "source")}
            return {**value, **_own_class(value["kind"], value["source"]).read(knobs).plain()}
        return value

    @property
    def spec(self) -> EncodingSpec:
        """The user's own spec, an instance of the class that `kind` names."""
        return _own_class(self.kind, self.source).read(self.model_extra or {})

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
    def only_first(self) -> bool:
        return self.spec.only_first

    @property
    def pairs(self) -> int:
        return self.spec.pairs

    def fit(self, shape: Shape) -> None:
        self.spec.fit(shape)

    def takes(self, widths: Widths) -> Takes:
        return self.spec.takes(widths)

    def parameters(self, shape: Shape) -> int:
        return self.spec.parameters(shape)

    def identity(self) -> Any:
        return self.spec.identity()


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
    """A user's spec becomes an OwnEncoding with the source of the file that defines its class."""
    if isinstance(value, EncodingSpec) and is_own(value.kind) and not isinstance(value, OwnEncoding):
        module = sys.modules[type(value).__module__]
        source = getattr(module, "__source__", None) or inspect.getsource(module)
        return OwnEncoding(**value.plain(), source=source)
    return value
