"""Encodings that give each pair of tokens a term inside attention, by the offset between them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from trainables.encoding_spec import EncodingSpec, Moment, Shape
from trainables.indices import Clipped, Index, Mapping, Offsets, Piecewise, Product, Split, buckets, tables
from trainables.spec import in_order, require

_SHARED = "true (one table for all blocks) or false (own tables a block)"


class PairSpec(EncodingSpec):
    """An encoding that gives each pair of tokens a term, and so acts in attention alone."""

    @property
    def moments(self) -> frozenset[Moment]:
        return frozenset({"attention"})


class Relative(PairSpec):
    """A learned vector for each offset (key minus query), multiplied with the query; with `value` also added to values.

    Source: Shaw et al. 2018 (`clipped`), Ramachandran et al. 2019 (`split`); thesis eq. 2. Differs: the whole logit is
    scaled, tables start with deviation 0.02, and pairs with a prefix token get zero.
    """

    kind: Literal["relative"] = Field(default="relative", init=False)
    offsets: Offsets = Field(default=Split(), description="split or clipped")
    value: bool = Field(default=False, description="true (values too) or false (keys alone)")
    shared: bool = Field(default=False, description=_SHARED)

    @property
    def reads(self) -> bool:
        return True

    @property
    def pairs(self) -> int:
        return 2 + self.value

    def fit(self, shape: Shape) -> None:
        even = isinstance(self.offsets, Clipped) or shape.widths.head_dim % 2 == 0
        require(even, "model.dim", "such that a head has an even number of channels", shape.widths.head_dim)

    def parameters(self, shape: Shape) -> int:
        if isinstance(self.offsets, Clipped):
            table = (2 * self.offsets.reach + 1) ** 2 * shape.widths.head_dim
        else:
            table = (shape.rows + shape.columns - 1) * shape.widths.head_dim
        return (1 + self.value) * (1 if self.shared else shape.depth) * table


class RelativeBias(PairSpec):
    """One learnable scalar a head for each offset (query minus key), added to the logits.

    Source: CPVT's LE + RPE row (`shared`); timm's RelPosBias. Differs: pairs with a prefix token get zero.
    """

    kind: Literal["relative_bias"] = Field(default="relative_bias", init=False)
    shared: bool = Field(default=False, description=_SHARED)

    @property
    def pairs(self) -> int:
        return 1

    def parameters(self, shape: Shape) -> int:
        offsets = (2 * shape.rows - 1) * (2 * shape.columns - 1)
        return (1 if self.shared else shape.depth) * shape.widths.heads * offsets


class IRPE(PairSpec):
    """Image relative position encoding: offsets (query minus key) fall into buckets, each with a learned term.

    `contextual` terms are products with queries (on k), keys (on q) or attention weights (on v), `bias` terms scalars.
    Units: alpha, beta, gamma in patches. Source: iRPE; its published code. Differs: as the code where paper and code
    differ (beta is cut after rounding, biases are not scaled, quantization takes the square by default).
    """

    kind: Literal["irpe"] = Field(default="irpe", init=False)
    mapping: Mapping = Field(default=Product(), description="euclidean, quantization, cross or product")
    index: Index = Field(default=Piecewise(), description="piecewise, piecewise_ratio, clip or clip_ratio")
    mode: Literal["contextual", "bias"] = Field(default="contextual", description="contextual or bias")
    on: Annotated[tuple[Literal["q", "k", "v"], ...], AfterValidator(partial(in_order, by="qkv".index))] = Field(
        default=("k",), strict=False, description="any of q, k, v, without doubles"
    )
    shared_heads: bool = Field(default=True, description="true (one table for all heads) or false (one a head)")
    shared: bool = Field(default=False, description=_SHARED)

    @model_validator(mode="after")
    def _on_what(self) -> IRPE:
        legal = self.mode == "contextual" or "v" not in self.on
        require(legal, "on", "of q and k where mode is bias", list(self.on))
        return self

    @property
    def idle(self) -> bool:
        return not self.on

    @property
    def reads(self) -> bool:
        return self.mode == "contextual"

    @property
    def pairs(self) -> int:
        return 1 if self.mode == "bias" else 2 + ("v" in self.on)

    def parameters(self, shape: Shape) -> int:
        number = shape.widths.head_dim if self.mode == "contextual" else 1
        count = tables(self.mapping) * buckets(self.mapping, self.index, shape.prefix) * number
        heads = 1 if self.shared_heads else shape.widths.heads
        return len(self.on) * (1 if self.shared else shape.depth) * heads * count
