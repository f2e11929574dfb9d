"""Image relative position encoding: offsets between two patches fall into buckets, and each bucket has a learned term.

Offsets are whole patches. Alpha, beta and gamma are lengths in patches (squares or ranks of them in `quantization`).
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from trainables.encodings.encoding import PairSpec, Shape
from trainables.spec import Spec, in_order, require


class Euclidean(Spec):
    """The rounded distance: undirected."""

    kind: Literal["euclidean"] = Field(default="euclidean", init=False)


class Quantization(Spec):
    """The squared distance, or its rank among all distinct ones on the grid: undirected.

    Source: iRPE, section 3.2; its published code. Differs: the paper uses the rank, the code the square; both are here.
    """

    kind: Literal["quantization"] = Field(default="quantization", init=False)
    of: Literal["squared", "rank"] = Field(default="squared", description="squared or rank")


class Cross(Spec):
    """Two tables, one of row and one of column offsets, whose terms add up: directed."""

    kind: Literal["cross"] = Field(default="cross", init=False)


class Product(Spec):
    """One table over pairs of row and column numbers: directed."""

    kind: Literal["product"] = Field(default="product", init=False)


Mapping = Annotated[Euclidean | Quantization | Cross | Product, Field(discriminator="kind")]


class Piecewise(Spec):
    """Offsets up to alpha are kept; beyond it they follow a logarithm that reaches beta at gamma."""

    kind: Literal["piecewise"] = Field(default="piecewise", init=False)
    alpha: float = Field(default=1.9, gt=0, description="a positive length in patches")
    beta: float = Field(default=3.8, gt=0, description="a positive length in patches")
    gamma: float = Field(default=15.2, gt=0, description="a positive length in patches")

    @model_validator(mode="after")
    def _rising(self) -> Piecewise:
        require(self.alpha < self.beta, "beta", f"more than alpha ({self.alpha})", self.beta)
        require(self.beta < self.gamma, "gamma", f"more than beta ({self.beta})", self.gamma)
        return self


class PiecewiseRatio(Spec):
    """As `piecewise`, with alpha, beta and gamma tied: 1, 2 and 8 times one ratio, as published."""

    kind: Literal["piecewise_ratio"] = Field(default="piecewise_ratio", init=False)
    ratio: float = Field(default=1.9, gt=0, description="a positive length in patches")

    @property
    def alpha(self) -> float:
        """Offsets up to this one are kept as they are."""
        return self.ratio

    @property
    def beta(self) -> float:
        """The largest number, before truncation."""
        return 2 * self.ratio

    @property
    def gamma(self) -> float:
        """The offset at which the logarithm reaches beta."""
        return 8 * self.ratio


class Clip(Spec):
    """Offsets clipped to the whole part of beta."""

    kind: Literal["clip"] = Field(default="clip", init=False)
    beta: float = Field(default=3.8, gt=0, description="a positive length in patches")


class ClipRatio(Spec):
    """As `clip`, with beta at 2 times the ratio, as published."""

    kind: Literal["clip_ratio"] = Field(default="clip_ratio", init=False)
    ratio: float = Field(default=1.9, gt=0, description="a positive length in patches")

    @property
    def beta(self) -> float:
        """The largest number, before truncation."""
        return 2 * self.ratio


Index = Annotated[Piecewise | PiecewiseRatio | Clip | ClipRatio, Field(discriminator="kind")]


def tables(mapping: Mapping) -> int:
    """Returns the number of tables of a mapping."""
    return 2 if isinstance(mapping, Cross) else 1


def buckets(mapping: Mapping, index: Index, prefix: int) -> int:
    """Counts the rows of a table: one for each number within trunc(beta), or pair of them, and one for all prefixes.

    Source: iRPE's published code (product at ratio 1.9 with a class token: 50). Differs: nothing.
    """
    numbers = 2 * int(index.beta) + 1
    return (numbers**2 if isinstance(mapping, Product) else numbers) + bool(prefix)


_SHARED = "true (one table for all blocks) or false (separate tables for each block)"


class IRPE(PairSpec):
    """Image relative position encoding: offsets (query minus key) fall into buckets, each with a learned term.

    `contextual` terms are products with queries (on k), keys (on q) or attention weights (on v), `bias` terms scalars.
    Units: alpha, beta, gamma in patches. Source: iRPE; its published code. Differs: as the code where paper and code
    differ (beta is cut after rounding, biases are not scaled, quantization uses the square by default).
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
    def _check_on(self) -> IRPE:
        legal = self.mode == "contextual" or "v" not in self.on
        require(legal, "on", "of q and k where mode is bias", list(self.on))
        return self

    @property
    def is_noop(self) -> bool:
        return not self.on

    @property
    def reads_qk(self) -> bool:
        return self.mode == "contextual"

    @property
    def saved_pairs(self) -> int:
        return 1 if self.mode == "bias" else 2 + ("v" in self.on)

    def parameters(self, shape: Shape) -> int:
        number = shape.widths.head_dim if self.mode == "contextual" else 1
        count = tables(self.mapping) * buckets(self.mapping, self.index, shape.prefix) * number
        heads = 1 if self.shared_heads else shape.widths.heads
        return len(self.on) * (1 if self.shared else shape.depth) * heads * count
