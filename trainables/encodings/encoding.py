"""What every encoding's spec declares: its kind, its size, and where it may stand. No torch is needed here.

A `Shape` describes a ViT before anything is built, so that parameters are counted and misfits refused by arithmetic.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from trainables.spec import Spec, SpecError

InjectionPoint = Literal["first", "between", "attention"]
"""Where an encoding acts: on the tokens before the first block, on those between blocks, or inside attention."""

INJECTION_POINTS: frozenset[InjectionPoint] = frozenset(("first", "between", "attention"))


@dataclass(frozen=True)
class Widths:
    """The widths an encoding is built for: channels of a token, heads, channels of a head."""

    dim: int
    heads: int
    head_dim: int


@dataclass(frozen=True)
class ReservedChannels:
    """How many channels of the content position replaces: of a token, and of a head's query, key and value."""

    tokens: int = 0
    q: int = 0
    k: int = 0
    v: int = 0

    def __add__(self, other: ReservedChannels) -> ReservedChannels:
        return ReservedChannels(self.tokens + other.tokens, self.q + other.q, self.k + other.k, self.v + other.v)


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
        """The number of tokens in a block."""
        return self.rows * self.columns + self.prefix


@dataclass(frozen=True)
class Grid:
    """Rows and columns of patches, in row-major order after `prefix` tokens, which have no coordinates."""

    rows: int
    columns: int
    prefix: int = 0

    @classmethod
    def of(cls, shape: Shape) -> Grid:
        """Returns the grid of a backbone, or of a stage of it."""
        return cls(shape.rows, shape.columns, shape.prefix)

    @property
    def patches(self) -> int:
        """The number of patches."""
        return self.rows * self.columns

    @property
    def tokens(self) -> int:
        """The number of tokens: prefix and patches."""
        return self.prefix + self.patches


class EncodingSpec(Spec):
    """One position encoding with its numbers.

    An encoding in a user's own file derives from `CodeSpec` or `HeadsSpec` and declares its parameters, or derives from
    this class and has a method `build(widths, grid, depth)` that returns a `PositionEncoding`. Its `kind` has the
    default "file.py:Class".
    """

    kind: str

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        check_flags(cls)

    @property
    def is_noop(self) -> bool:
        """True if the encoding does nothing, so that a recipe with it equals one without it."""
        return False

    @property
    def label(self) -> str:
        """The name in tables and MLflow."""
        return self.kind

    @property
    def shrinks(self) -> bool:
        """True if it returns a smaller grid."""
        return False

    @property
    def any_grid(self) -> bool:
        """True if it works on any grid, including one that an earlier part made smaller."""
        return False

    @property
    def injection_points(self) -> frozenset[InjectionPoint]:
        """Where it acts, so that a backbone can refuse what it does not support; by default anywhere."""
        return INJECTION_POINTS

    @property
    def modifies_qk(self) -> bool:
        """True if it changes queries or keys."""
        return False

    @property
    def reads_qk(self) -> bool:
        """True if it computes terms from queries or keys; parts that change them must come before it."""
        return False

    @property
    def draws(self) -> int:
        """How many random numbers from 0 to 1 it needs at each step of training, if it declares its parameters."""
        return 0

    @property
    def saved_pairs(self) -> int:
        """Number of N x N tensors saved for backward, per head and block, beyond those of fused attention."""
        return 0

    def check(self, shape: Shape) -> None:
        """Checks with `require` that this encoding can be built for a ViT of this shape."""

    def reserved(self, widths: Widths) -> ReservedChannels:
        """Returns the channels of the content that position replaces."""
        return ReservedChannels()

    def parameters(self, shape: Shape) -> int:
        """Returns the number of its parameters, for the plan; 0 for an own encoding that does not override this."""
        return 0

    def trainable_parameters(self, shape: Shape) -> int:
        """Returns the number of its parameters that are trained."""
        return self.parameters(shape)

    def identity(self) -> Any:
        """Returns `Spec.identity` without nodes that equal their defaults, so that a new field changes no key."""
        fields = type(self).model_fields
        defaults = {
            name
            for name, field in fields.items()
            if isinstance(field.default, Spec) and getattr(self, name) == field.default
        }
        return {name: value for name, value in super().identity().items() if name not in defaults}


def check_flags(cls: type) -> None:
    """Refuses a flag (true or false) of a user's own class that its bases do not have: nothing would read it.

    Raises: SpecError with the name of the flag that is most like it.
    """
    flags = {
        name for base in cls.__mro__[1:] for name, value in vars(base).items() if isinstance(value, bool | property)
    }
    for name, value in vars(cls).items() if not cls.__module__.startswith("trainables.") else ():
        if isinstance(value, bool) and name[0] != "_" and name not in flags:
            (near,) = difflib.get_close_matches(name, flags, n=1, cutoff=0)
            raise SpecError(f"a flag of {cls.__name__} must be one that is read, such as {near}, got {name}")


class PairSpec(EncodingSpec):
    """An encoding of pairs of tokens, which therefore acts inside attention alone."""

    injection_points: ClassVar[frozenset[InjectionPoint]] = frozenset({"attention"})


@dataclass(frozen=True)
class OrderedPart:
    """What decides where a part may stand in a composition."""

    name: str
    reserves: bool
    modifies_qk: bool
    reads_qk: bool


def order_error(parts: Iterable[OrderedPart]) -> tuple[str, str] | None:
    """Returns what the order of parts must be and what was found instead; None for an order that works.

    A part that reserves channels comes before all that see the full width, and one that changes queries or keys comes
    before those that read them: a part must never act on something that it was not built for.
    """
    full_width: str | None = None
    reader: str | None = None
    for part in parts:
        if part.reserves and full_width is not None:
            return "in an order in which parts that reserve channels come first", f"{full_width} before {part.name}"
        if part.modifies_qk and reader is not None:
            return "in an order in which q and k change before they are read", f"{reader} before {part.name}"
        full_width = full_width if part.reserves else part.name
        reader = part.name if part.reads_qk else reader
    return None
