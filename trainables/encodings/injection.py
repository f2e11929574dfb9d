"""How a code is injected into a ViT: added, concatenated, appended to queries and keys, or in parts of the logits.

A code has a row for each token. Its places are `common` (the tokens, before a block), and `query`, `key`, `value` (the
heads of a block, after projection), where the heads get its channels in order. With `shared` one code serves all places
and blocks; otherwise each has a code with its own parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from trainables.encodings.declared import Params, count
from trainables.encodings.encoding import EncodingSpec, Grid, InjectionPoint, ReservedChannels, Shape, Widths
from trainables.spec import Spec, in_order, require

Place = Literal["common", "query", "key", "value"]
Slot = tuple[Place, int]
"""A place and the number of a block."""

HEADS: tuple[tuple[Place, str], ...] = (("query", "q"), ("key", "k"), ("value", "v"))
"""The places in the heads, with the letters of their tensors."""

Places = Annotated[tuple[Place, ...], AfterValidator(partial(in_order, by=get_args(Place).index))]
_SHARED = "true (one code for all places and blocks) or false (a separate code for each)"
_PLACES = "any of common, query, key, value, without doubles"
_BLOCKS = "a positive number of first blocks, or null"


class InjectionSpec(Spec):
    """What every injection declares: its places and blocks, the code's width there, the channels it reserves."""

    kind: str
    shared: bool = Field(default=True, kw_only=True, description=_SHARED)

    def slots(self, depth: int) -> tuple[Slot, ...]:
        """Returns every place and block that gets the code."""
        raise NotImplementedError

    def width(self, place: Place, widths: Widths) -> int:
        """Returns the code's channels at a place."""
        return widths.dim if place == "common" else widths.heads * widths.head_dim

    def reserved(self, widths: Widths) -> ReservedChannels:
        """Returns the channels of the content that the code replaces."""
        return ReservedChannels()

    def check(self, multiple: int, shape: Shape) -> None:
        """Checks that a code whose width is a multiple of `multiple` can be injected into a ViT of this shape."""

    @property
    def modifies_qk(self) -> bool:
        """As an encoding's `modifies_qk`."""
        return bool({"query", "key"} & {place for place, _ in self.slots(1)})

    @property
    def saved_pairs(self) -> int:
        """As an encoding's `saved_pairs`: queries and keys wider than values turn flash attention off."""
        return 0

    def codes(self, depth: int) -> tuple[Slot, ...]:
        """Returns the slots with their own code; a shared code belongs to the first."""
        slots = self.slots(depth)
        return slots[:1] if self.shared else slots


def _slots(places: Iterable[Place], blocks: int | None, depth: int) -> tuple[Slot, ...]:
    """Returns each place with its first blocks: so many, or by default one for `common` and all for the others."""
    counts = {place: blocks or (1 if place == "common" else depth) for place in places}
    return tuple((place, block) for place, count in counts.items() for block in range(count))


def _check_blocks(blocks: int | None, depth: int) -> None:
    legal = f"at most the {depth} blocks of the model"
    require(blocks is None or blocks <= depth, "encoding.injection.blocks", legal, blocks)


class Add(InjectionSpec):
    """Added to what is there: x + p.

    `blocks`: how many blocks get the code, from the first on; null means one for `common`, all for the others.
    Source: DeiT; CPVT 5.3 (the table before each of the first six blocks); Gabor paper eq. 1. Differs: nothing.
    """

    kind: Literal["add"] = Field(default="add", init=False)
    places: Places = Field(default=("common",), strict=False, description=_PLACES)
    blocks: int | None = Field(default=None, gt=0, description=_BLOCKS)

    def slots(self, depth: int) -> tuple[Slot, ...]:
        return _slots(self.places, self.blocks, depth)

    def check(self, multiple: int, shape: Shape) -> None:
        _check_blocks(self.blocks, shape.depth)


class Concat(InjectionSpec):
    """Beside the content: the content keeps 1 - split of the channels, position fills the last ones.

    `common`: before the first block, the patch embedding makes fewer channels; `query`, `key`, `value`: in every block
    and head, the projection does. Source: concat paper 3.2, eq. 9 (one shared code; split 1/2).
    Differs: the split is free; the paper does not say how a code is joined to the heads: here head by head.
    """

    kind: Literal["concat"] = Field(default="concat", init=False)
    split: float = Field(default=0.5, gt=0, lt=1, description="a share of the channels between 0 and 1")
    places: Places = Field(default=("common",), strict=False, description=_PLACES)

    def slots(self, depth: int) -> tuple[Slot, ...]:
        return _slots(self.places, None, depth)

    def width(self, place: Place, widths: Widths) -> int:
        if place == "common":
            return round(self.split * widths.dim)
        return widths.heads * round(self.split * widths.head_dim)

    def reserved(self, widths: Widths) -> ReservedChannels:
        head = round(self.split * widths.head_dim)
        q, k, v = (head if place in self.places else 0 for place, _ in HEADS)
        return ReservedChannels(self.width("common", widths) if "common" in self.places else 0, q, k, v)

    def check(self, multiple: int, shape: Shape) -> None:
        widths = shape.widths
        if {"query", "key", "value"} & {*self.places}:
            self._fit(widths.heads * widths.head_dim, math.lcm(multiple, widths.heads))
        if "common" in self.places:
            self._fit(widths.dim, multiple)

    def _fit(self, channels: int, step: int) -> None:
        exact = self.split * channels
        legal = range(step, channels, step)
        near = sorted(sorted(legal, key=lambda width: abs(width - exact))[:2])
        nearest = " or ".join(f"{width / channels:.6g}" for width in near) or "none"
        must = f"a share of {channels} channels that is a multiple of {step} (nearest: {nearest})"
        whole = any(abs(exact - width) < 1e-6 * channels for width in near)
        require(whole, "encoding.injection.split", must, self.split)


class Extend(InjectionSpec):
    """Appended to queries and keys after projection, so that logits gain pos_q . pos_k.

    `channels` is a head's. Logits stay scaled by the unextended head's width, so the model without position is
    unchanged. Source: Gabor paper eq. 13 and fig. 11. Differs: the scale, which the paper does not state.
    """

    saved_pairs: ClassVar[int] = 1

    kind: Literal["extend"] = Field(default="extend", init=False)
    channels: int = Field(default=16, gt=0, description="a positive number of channels a head")
    blocks: int | None = Field(default=None, gt=0, description=_BLOCKS)

    def slots(self, depth: int) -> tuple[Slot, ...]:
        return _slots(("query", "key"), self.blocks, depth)

    def width(self, place: Place, widths: Widths) -> int:
        return widths.heads * self.channels

    def check(self, multiple: int, shape: Shape) -> None:
        _check_blocks(self.blocks, shape.depth)
        width = self.width("query", shape.widths)
        must = f"such that a code's channels ({width}) are divisible by {multiple}"
        require(width % multiple == 0, "encoding.injection.channels", must, self.channels)


Part = Literal[1, 2, 3, 4]


class Parts(InjectionSpec):
    """Chosen parts of the attention logits of queries and keys to which codes are added.

    1 content-content, 2 position-content, 3 content-position, 4 position-position (query first): all four are
    `add` at query and key. Source: Gabor paper eq. 11 and table 3. Differs: eq. 3 has 2 and 3 the other way round.
    """

    saved_pairs: ClassVar[int] = 2

    kind: Literal["parts"] = Field(default="parts", init=False)
    parts: Annotated[tuple[Part, ...], AfterValidator(in_order)] = Field(
        default=(1, 4), strict=False, description="any of 1, 2, 3, 4, without doubles"
    )
    blocks: int | None = Field(default=None, gt=0, description=_BLOCKS)

    @model_validator(mode="after")
    def _some(self) -> Parts:
        require(bool(self.parts), "parts", "at least one of 1, 2, 3, 4", list(self.parts))
        return self

    def slots(self, depth: int) -> tuple[Slot, ...]:
        sides: tuple[tuple[Place, set[int]], ...] = (("query", {2, 4}), ("key", {3, 4}))
        return _slots([place for place, parts in sides if parts & {*self.parts}], self.blocks, depth)

    def check(self, multiple: int, shape: Shape) -> None:
        _check_blocks(self.blocks, shape.depth)


Injection = Annotated[Add | Concat | Extend | Parts, Field(discriminator="kind")]


class CodeSpec(EncodingSpec):
    """A code of every token's place, and how it is injected.

    A subclass declares its parameters in `params` and computes the code in `code`. `code` runs in float32
    (float64 where the model is), whatever precision the backbone has. `draws` is as a `HeadsSpec` has it.
    """

    injection: Injection = Field(default=Add(), kw_only=True, description="one of add, concat, extend, parts")

    @property
    def multiple(self) -> int:
        """The width of a code is a multiple of this."""
        return 1

    def params(self, dim: int, grid: Grid) -> Params:
        """Returns the parameters of one code of `dim` channels; none for a fixed code."""
        return {}

    def code(self, p: Any, at: Any) -> Any:
        """Returns the code of all tokens, prefix first, from the parameters and the positions. Shapes: to (N, D)."""
        raise NotImplementedError

    @property
    def is_noop(self) -> bool:
        return not self.injection.slots(1)

    @property
    def injection_points(self) -> frozenset[InjectionPoint]:
        slots = self.injection.slots(2)
        tokens: set[InjectionPoint] = {"between" if block else "first" for place, block in slots if place == "common"}
        return frozenset(tokens | ({"attention"} if {place for place, _ in slots} - {"common"} else set()))

    @property
    def modifies_qk(self) -> bool:
        return self.injection.modifies_qk

    @property
    def saved_pairs(self) -> int:
        return self.injection.saved_pairs

    def code_parameters(self, width: int, shape: Shape) -> int:
        """Returns the number of parameters of one code of `width` channels."""
        return count(self.params(width, Grid.of(shape)))

    def check(self, shape: Shape) -> None:
        self.injection.check(self.multiple, shape)
        widths = {self.injection.width(place, shape.widths) for place, _ in self.injection.slots(shape.depth)}
        for width in sorted(widths):
            must = f"divisible by {self.multiple} for {self.kind} codes"
            require(width % self.multiple == 0, "model.embed_dim", must, width)
        fits = len(widths) <= 1 or not self.injection.shared
        require(fits, "encoding.injection.shared", "false where the places differ in width", self.injection.shared)

    def reserved(self, widths: Widths) -> ReservedChannels:
        return self.injection.reserved(widths)

    def parameters(self, shape: Shape) -> int:
        slots = self.injection.codes(shape.depth)
        return sum(self.code_parameters(self.injection.width(place, shape.widths), shape) for place, _ in slots)
