"""Learned terms for each offset between two patches: scalars added to the logits, or vectors beside the keys."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainables.encodings.encoding import PairSpec, Shape
from trainables.spec import Spec, require


class SplitOffsets(Spec):
    """A table of row offsets and one of column offsets, each for half of a head's channels.

    Source: Ramachandran et al. 2019, section 3.1; thesis eq. 2. Differs: nothing.
    """

    kind: Literal["split"] = Field(default="split", init=False)


class ClippedOffsets(Spec):
    """One table over pairs of row and column offsets, both clipped to `reach`.

    Source: Shaw et al. 2018, section 3.2; CPVT's comparison (reach 8). Differs: pairs, as an image needs.
    """

    kind: Literal["clipped"] = Field(default="clipped", init=False)
    reach: int = Field(default=8, gt=0, description="a positive number of patches")


Offsets = Annotated[SplitOffsets | ClippedOffsets, Field(discriminator="kind")]


_SHARED = "true (one table for all blocks) or false (separate tables for each block)"


class Relative(PairSpec):
    """A learned vector for each offset (key minus query), multiplied with the query; with `value` also added to values.

    Source: Shaw et al. 2018 (`clipped`), Ramachandran et al. 2019 (`split`); thesis eq. 2. Differs: the whole logit is
    divided by the root of a head's width (the thesis' eq. 2 has no scale), tables start with deviation 0.02 (the
    originals at 1), and pairs with a prefix token get zero.
    """

    reads_qk: ClassVar[bool] = True

    kind: Literal["relative"] = Field(default="relative", init=False)
    offsets: Offsets = Field(default=SplitOffsets(), description="split or clipped")
    value: bool = Field(default=False, description="true (values too) or false (keys alone)")
    shared: bool = Field(default=False, description=_SHARED)

    @property
    def saved_pairs(self) -> int:
        return 2 + self.value

    def check(self, shape: Shape) -> None:
        even = isinstance(self.offsets, ClippedOffsets) or shape.widths.head_dim % 2 == 0
        require(even, "model.embed_dim", "such that a head has an even number of channels", shape.widths.head_dim)

    def parameters(self, shape: Shape) -> int:
        if isinstance(self.offsets, ClippedOffsets):
            table = (2 * self.offsets.reach + 1) ** 2 * shape.widths.head_dim
        else:
            table = (shape.rows + shape.columns - 1) * shape.widths.head_dim
        return (1 + self.value) * (1 if self.shared else shape.depth) * table


class RelativeBias(PairSpec):
    """One learnable scalar a head for each offset (query minus key), added to the logits.

    Source: CPVT's LE + RPE row (`shared`); timm's RelPosBias. Differs: pairs with a prefix token get zero (timm has
    three rows for them).
    """

    saved_pairs: ClassVar[int] = 1

    kind: Literal["relative_bias"] = Field(default="relative_bias", init=False)
    shared: bool = Field(default=False, description=_SHARED)

    def parameters(self, shape: Shape) -> int:
        offsets = (2 * shape.rows - 1) * (2 * shape.columns - 1)
        return (1 if self.shared else shape.depth) * shape.widths.heads * offsets
