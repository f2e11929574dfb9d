"""What every encoding's spec must say, of the house or of one's own: its name, its shape, and where it cannot stand.

A `Shape` is a ViT as an encoding sees it before anything is built; counts of parameters and refusals need no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from trainables.spec import Spec

InjectionPoint = Literal["first", "between", "attention"]
"""When position injection: with the tokens before the first block, with those between blocks, or inside attention."""

INJECTION_POINTS: frozenset[InjectionPoint] = frozenset(("first", "between", "attention"))


@dataclass(frozen=True)
class Widths:
    """The widths an encoding will see: channels of a token, heads, channels a head."""

    dim: int
    heads: int
    head_dim: int


@dataclass(frozen=True)
class ReservedChannels:
    """How many channels an encoding takes from the content: of a token, and a head's query, key and value."""

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
        """How many tokens a block sees."""
        return self.rows * self.columns + self.prefix


class EncodingSpec(Spec):
    """One position encoding with its numbers.

    An encoding of one's own derives from this in a file of its own, gives `kind` the default "file.py:Class" and has a
    method `build(widths, grid, depth)` that returns a `trainables.encoding.PositionEncoding`.
    """

    kind: str

    @property
    def is_noop(self) -> bool:
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
    def injection_points(self) -> frozenset[InjectionPoint]:
        """When it acts, so that a backbone can say what it has no place for; one that does not say may act at any."""
        return INJECTION_POINTS

    @property
    def modifies_qk(self) -> bool:
        """True where it changes queries or keys."""
        return False

    @property
    def reads_qk(self) -> bool:
        """True where it adds terms computed from queries or keys, which others must therefore change before it."""
        return False

    @property
    def saved_pairs(self) -> int:
        """How many numbers each pair of tokens keeps for the gradient, a head and block; fused attention keeps none."""
        return 0

    def check(self, shape: Shape) -> None:
        """Complains with `require` where this encoding cannot stand in a ViT of this shape."""

    def reserved(self, widths: Widths) -> ReservedChannels:
        """The channels that position takes from the content."""
        return ReservedChannels()

    def parameters(self, shape: Shape) -> int:
        """How many parameters it has, for the plan; an encoding of one's own that does not say counts for nothing."""
        return 0

    def trainable_parameters(self, shape: Shape) -> int:
        """How many of its parameters learn."""
        return self.parameters(shape)

    def identity(self) -> Any:
        """As `Spec.identity`, but a node that is its default goes unsaid: what is new leaves the keys as they are."""
        fields = type(self).model_fields
        unsaid = {
            name
            for name, field in fields.items()
            if isinstance(field.default, Spec) and getattr(self, name) == field.default
        }
        return {name: value for name, value in super().identity().items() if name not in unsaid}


class PairSpec(EncodingSpec):
    """An encoding that gives each pair of tokens a term, and so acts in attention alone."""

    @property
    def injection_points(self) -> frozenset[InjectionPoint]:
        return frozenset({"attention"})
