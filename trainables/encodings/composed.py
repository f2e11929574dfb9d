"""No encoding, and several encodings one after the other, brought to one canonical form."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from trainables.encodings.encoding import EncodingSpec, InjectionPoint, ReservedChannels, Shape, Widths
from trainables.spec import require

if TYPE_CHECKING:
    from trainables.encodings import Encoding


class NoEncoding(EncodingSpec):
    """No position at all: the model sees a bag of patches."""

    kind: Literal["none"] = Field(default="none", init=False)

    @property
    def is_noop(self) -> bool:
        return True

    @property
    def injection_points(self) -> frozenset[InjectionPoint]:
        return frozenset()


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
        return frozenset(moment for part in self.parts for moment in part.injection_points)

    @property
    def saved_pairs(self) -> int:
        return max((part.saved_pairs for part in self.parts), default=0)

    def check(self, shape: Shape) -> None:
        for part, told in self._told(shape.widths):
            require(told.dim > 0, "encoding.parts", "such that the content keeps some channels", self.label)
            part.check(replace(shape, widths=told))
        reserved = self.reserved(shape.widths)
        left = min(shape.widths.dim - reserved.tokens, shape.widths.head_dim - max(reserved.q, reserved.k, reserved.v))
        require(left > 0, "encoding.parts", "such that the content keeps some channels", self.label)
        for number, part in enumerate(self.parts):
            after, before = self.parts[number + 1 :], self.parts[:number]
            free = all(o.any_grid for o in after) and all(o.any_grid or o.injection_points <= {"first"} for o in before)
            must = f"codes before the first block and convolutions only, where {part.label} makes the grid smaller"
            require(free or not part.shrinks, "encoding.parts", must, self.label)
        self._check_order(shape.widths)

    def _check_order(self, widths: Widths) -> None:
        """Complains of a part that would act on something it has not been built for."""
        whole, read = False, False
        for part in self.parts:
            reserved = part.reserved(widths) != ReservedChannels()
            must = "in an order in which what takes channels of the content comes first"
            require(not (reserved and whole), "encoding.parts", must, self.label)
            must = "in an order in which q and k change before terms read them"
            require(not (part.modifies_qk and read), "encoding.parts", must, self.label)
            whole, read = whole or not reserved, read or part.reads_qk

    def reserved(self, widths: Widths) -> ReservedChannels:
        return sum((part.reserved(told) for part, told in self._told(widths)), ReservedChannels())

    def parameters(self, shape: Shape) -> int:
        return sum(part.parameters(replace(shape, widths=told)) for part, told in self._told(shape.widths))

    def trainable_parameters(self, shape: Shape) -> int:
        return sum(part.trainable_parameters(replace(shape, widths=told)) for part, told in self._told(shape.widths))

    def _told(self, widths: Widths) -> list[tuple[EncodingSpec, Widths]]:
        """Each part with the widths it will see: one that takes channels of the tokens leaves fewer to those before."""
        told: list[tuple[EncodingSpec, Widths]] = []
        for part in reversed(self.parts):
            told.append((part, widths))
            widths = replace(widths, dim=widths.dim - part.reserved(widths).tokens)
        return told


def canonical(encoding: EncodingSpec) -> EncodingSpec:
    """Nested parts flattened, idle parts dropped, a single part unwrapped, nothing left: `none`."""
    parts = list(_active(encoding))
    if len(parts) > 1:
        return Composed(parts=tuple(parts))  # type: ignore[arg-type]  # each is of the union
    return parts[0] if parts else NoEncoding()


def parts_of(encoding: EncodingSpec) -> tuple[EncodingSpec, ...]:
    """The parts of an encoding in canonical form, or itself."""
    return encoding.parts if isinstance(encoding, Composed) else (encoding,)


def _active(encoding: EncodingSpec) -> list[EncodingSpec]:
    if isinstance(encoding, Composed):
        return [active for part in encoding.parts for active in _active(part)]
    return [] if encoding.is_noop else [encoding]
