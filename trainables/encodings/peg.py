"""Conditional position encoding: convolutions over the token map, whose zero padding shows the border."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from trainables.encodings.encoding import EncodingSpec, InjectionPoint, Shape
from trainables.spec import require


class PEG(EncodingSpec):
    """A convolution over the token map, with a residual: conditional position encoding.

    `form`: one convolution, depth-wise, dense or separable (depth-wise, then 1 x 1), or a stack of four with
    normalization and ReLU. `padding`: zeros, circular (which hides the border), or valid (none: the map shrinks, and
    there is no residual). `into`: all tokens, or only the input of the next block's queries and keys.
    Units: place -1 is before the first block, i after block i. Source: CPVT algorithm 1, tables 5, 11, 12, 14; an
    author's answer on `valid`. Differs: the default place is -1, the only one that every depth has; CPVT prefers 0.
    """

    kind: Literal["peg"] = Field(default="peg", init=False)
    places: tuple[int, ...] = Field(
        default=(-1,), strict=False, description="block indices from -1 on, without doubles"
    )
    kernel: int = Field(default=3, gt=0, description="a positive odd kernel size")
    form: Literal["depthwise", "dense", "separable", "depthwise_stack", "dense_stack"] = Field(
        default="depthwise", description="depthwise, dense, separable, depthwise_stack or dense_stack"
    )
    padding: Literal["zeros", "circular", "valid"] = Field(default="zeros", description="zeros, circular or valid")
    into: Literal["tokens", "query_key"] = Field(default="tokens", description="tokens or query_key")
    frozen: bool = Field(default=False, description="true (stays as it starts) or false (learns)")

    @model_validator(mode="after")
    def _legal(self) -> PEG:
        require(len(set(self.places)) == len(self.places), "places", "without doubles", list(self.places))
        require(all(place >= -1 for place in self.places), "places", "block indices from -1 on", list(self.places))
        require(self.kernel % 2 == 1, "kernel", "odd", self.kernel)
        whole = self.into == "tokens" or self.padding != "valid"
        require(whole, "padding", "zeros or circular where into is query_key", self.padding)
        return self

    @property
    def is_noop(self) -> bool:
        return not self.places

    @property
    def shrinks(self) -> bool:
        return self.padding == "valid" and self.kernel > 1

    @property
    def any_grid(self) -> bool:
        return self.into == "tokens"

    @property
    def injection_points(self) -> frozenset[InjectionPoint]:
        if self.into == "query_key":
            return frozenset({"attention"})
        return frozenset("first" if place < 0 else "between" for place in self.places)

    @property
    def layers(self) -> int:
        """The number of spatial convolutions at one place."""
        return 4 if self.form.endswith("stack") else 1

    def check(self, shape: Shape) -> None:
        legal = f"block indices from -1 to {shape.depth - 2} in a model of depth {shape.depth}"
        require(all(place <= shape.depth - 2 for place in self.places), "encoding.places", legal, list(self.places))
        side = min(shape.rows, shape.columns)
        if self.padding == "circular":
            require(self.kernel // 2 <= side, "encoding.kernel", f"at most {2 * side + 1} on this grid", self.kernel)
        if self.padding == "valid":
            left = side - len(self.places) * self.layers * (self.kernel - 1)
            require(left > 0, "encoding.places", "so few that some of the grid is left", list(self.places))

    def parameters(self, shape: Shape) -> int:
        dim, area = shape.widths.dim, self.kernel**2
        layer = {
            "depthwise": dim * (area + 1),
            "dense": dim * (dim * area + 1),
            "separable": dim * (area + 1) + dim * (dim + 1),
            "depthwise_stack": dim * (area + 2),
            "dense_stack": dim * (dim * area + 2),
        }[self.form]
        return len(self.places) * self.layers * layer

    def trainable_parameters(self, shape: Shape) -> int:
        return 0 if self.frozen else self.parameters(shape)
