"""No encoding, and several encodings one after the other in a canonical form."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from trainables.encodings.encoding import (
    EncodingSpec,
    InjectionPoint,
    OrderedPart,
    ReservedChannels,
    Shape,
    Widths,
    order_error,
)
from trainables.spec import require

if TYPE_CHECKING:
    from trainables.encodings import Encoding


class NoEncoding(EncodingSpec):
    """No position: the model sees patches in no order."""

    is_noop: ClassVar[bool] = True
    injection_points: ClassVar[frozenset[InjectionPoint]] = frozenset()

    kind: Literal["none"] = Field(default="none", init=False)


class Composed(EncodingSpec):
    """Several encodings, one after the other: `encoding.parts.1.gamma` is the second part's gamma."""

    kind: Literal["composed"] = Field(default="composed", init=False)
    parts: tuple[Encoding, ...] = Field(strict=False, description="a list of encodings")

    @property
    def label(self) -> str:
        return "+".join(part.label for part in self.parts) or "none"

    @property
    def shrinks(self) -> bool:
        return any(part.shrinks for part in self.parts)

    @property
    def injection_points(self) -> frozenset[InjectionPoint]:
        return frozenset(point for part in self.parts for point in part.injection_points)

    @property
    def saved_pairs(self) -> int:
        return max((part.saved_pairs for part in self.parts), default=0)

    def check(self, shape: Shape) -> None:
        for part, widths in self._part_widths(shape.widths):
            require(widths.dim > 0, "encoding.parts", "such that the content keeps some channels", self.label)
            part.check(replace(shape, widths=widths))
        reserved = self.reserved(shape.widths)
        left = min(shape.widths.dim - reserved.tokens, shape.widths.head_dim - max(reserved.q, reserved.k, reserved.v))
        require(left > 0, "encoding.parts", "such that the content keeps some channels", self.label)
        for number, part in enumerate(self.parts):
            after, before = self.parts[number + 1 :], self.parts[:number]
            free = all(other.any_grid for other in after)
            free &= all(other.any_grid or other.injection_points <= {"first"} for other in before)
            must = f"codes before the first block and convolutions only, where {part.label} makes the grid smaller"
            require(free or not part.shrinks, "encoding.parts", must, self.label)
        error = order_error(
            OrderedPart(part.label, part.reserved(widths) != ReservedChannels(), part.modifies_qk, part.reads_qk)
            for part, widths in self._part_widths(shape.widths)
        )
        if error is not None:
            require(False, "encoding.parts", *error)

    def reserved(self, widths: Widths) -> ReservedChannels:
        return sum((part.reserved(seen) for part, seen in self._part_widths(widths)), ReservedChannels())

    def parameters(self, shape: Shape) -> int:
        return sum(part.parameters(seen) for part, seen in self._part_shapes(shape))

    def trainable_parameters(self, shape: Shape) -> int:
        return sum(part.trainable_parameters(seen) for part, seen in self._part_shapes(shape))

    def _part_shapes(self, shape: Shape) -> list[tuple[EncodingSpec, Shape]]:
        return [(part, replace(shape, widths=widths)) for part, widths in self._part_widths(shape.widths)]

    def _part_widths(self, widths: Widths) -> list[tuple[EncodingSpec, Widths]]:
        """Returns each part with its widths: if one reserves channels of the tokens, those before it have fewer."""
        pairs: list[tuple[EncodingSpec, Widths]] = []
        for part in reversed(self.parts):
            pairs.append((part, widths))
            widths = replace(widths, dim=widths.dim - part.reserved(widths).tokens)
        return pairs[::-1]


def canonical(encoding: EncodingSpec) -> EncodingSpec:
    """Returns the same encoding without nested parts and no-ops; a single part stands alone, no part is `none`."""
    parts = _active(encoding)
    if len(parts) > 1:
        return Composed(parts=tuple(parts))
    return parts[0] if parts else NoEncoding()


def parts_of(encoding: EncodingSpec) -> tuple[EncodingSpec, ...]:
    """Returns the parts of an encoding in canonical form; an encoding that is not composed is its own single part."""
    return encoding.parts if isinstance(encoding, Composed) else (encoding,)


def _active(encoding: EncodingSpec) -> list[EncodingSpec]:
    if isinstance(encoding, Composed):
        return [active for part in encoding.parts for active in _active(part)]
    return [] if encoding.is_noop else [encoding]
