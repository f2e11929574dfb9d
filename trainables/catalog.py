"""Every position encoding's spec, by its kind: what it is called, its knobs and their units.

A spec says which encoding; the code that computes it lies in `encodings/`, one file a family. How a code enters is in
`enters.py`, how offsets are numbered in `indices.py`. Grids are R rows by C columns of patches, tokens in row-major
order, and blocks count from 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from trainables import enters
from trainables.encoding_spec import EncodingSpec, Moment, Shape, Takes, Widths
from trainables.enters import Add, Concat, Extend, Parts
from trainables.own import OwnEncoding, Values, carry, carry_source, is_own
from trainables.pair_specs import IRPE, Relative, RelativeBias
from trainables.spec import require


class NoEncoding(EncodingSpec):
    """No position at all: the model sees a bag of patches."""

    kind: Literal["none"] = Field(default="none", init=False)

    @property
    def idle(self) -> bool:
        return True

    @property
    def moments(self) -> frozenset[Moment]:
        return frozenset()


class Learnable(enters.CodeSpec):
    """A free table, one row a token, the class token included.

    Source: thesis 3.1; DeiT. Differs: the class token has a row, as in DeiT (the thesis adds it afterwards).
    """

    kind: Literal["learnable"] = Field(default="learnable", init=False)
    std: float = Field(default=0.02, gt=0, description="a positive standard deviation")

    def code_parameters(self, width: int, shape: Shape) -> int:
        return shape.tokens * width


class Sinusoidal(enters.CodeSpec):
    """Fixed 2-D sines and cosines: the first half of the channels x, the second y.

    Source: thesis eq. 1. Differs: the class token gets zeros (the thesis does not say).
    """

    kind: Literal["sinusoidal"] = Field(default="sinusoidal", init=False)

    @property
    def multiple(self) -> int:
        return 4


class LearnableSinusoidal(enters.CodeSpec):
    """Sines and cosines of learned linear maps of (x, y), equal to `sinusoidal` at the start.

    Source: thesis eq. 6. Differs: sine before cosine, as the equality with eq. 1 demands.
    """

    kind: Literal["learnable_sinusoidal"] = Field(default="learnable_sinusoidal", init=False)

    @property
    def multiple(self) -> int:
        return 4

    def code_parameters(self, width: int, shape: Shape) -> int:
        return width


class Fourier(enters.CodeSpec):
    """Learnable Fourier features of the coordinates, through a small MLP.

    Units: gamma is a length, in patches with raw coordinates, in grid widths with unit ones.
    Source: thesis eq. 3. Differs: frequencies start with standard deviation 1/gamma; eq. 4 drops two factors, so the
    features' expected inner product is 0.5 exp(-d^2 / (2 gamma^2)).
    """

    kind: Literal["fourier"] = Field(default="fourier", init=False)
    gamma: float = Field(default=2.5, gt=0, description="a positive length in patches")
    features: int | None = Field(
        default=None, gt=0, description="a positive even number of features, or null for the code's channels"
    )
    hidden: int = Field(default=32, gt=0, description="a positive width of the MLP")
    coordinates: Literal["raw", "unit"] = Field(
        default="raw", description="'raw' (patches, from 0) or 'unit' (scaled to [0, 1])"
    )

    @model_validator(mode="after")
    def _even(self) -> Fourier:
        require(self.features is None or self.features % 2 == 0, "features", "even", self.features)
        return self

    @property
    def multiple(self) -> int:
        return 2 if self.features is None else 1

    def code_parameters(self, width: int, shape: Shape) -> int:
        features = self.features or width
        return features + (features + 1) * self.hidden + (self.hidden + 1) * width


class Gabor(enters.CodeSpec):
    """A Gabor wave along x, one along y and four edge markers for each channel, all learned.

    `form`: both (G+E), the waves alone (G), the edges alone (E). Coordinates run from -1 to 1 along each side.
    Source: Gabor paper eqs. 5-9. Differs: start and guards, which the paper does not give (see the module).
    """

    kind: Literal["gabor"] = Field(default="gabor", init=False)
    form: Literal["gabor+edge", "gabor", "edge"] = Field(default="gabor+edge", description="gabor+edge, gabor or edge")

    def code_parameters(self, width: int, shape: Shape) -> int:
        numbers = 8 * ("gabor" in self.form) + 4 * ("edge" in self.form) + 1 + shape.prefix
        return numbers * width


class PEG(EncodingSpec):
    """A convolution over the token map, with a residual: conditional position encoding.

    `form`: one convolution, depth-wise, dense or separable (depth-wise, then 1 x 1), or a stack of four with
    normalisation and ReLU. `padding`: zeros, circular (no border to be seen), or valid (none: the map shrinks, and
    there is no residual). `into`: all tokens, or what queries and keys of the next block are made of.
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
    def idle(self) -> bool:
        return not self.places

    @property
    def shrinks(self) -> bool:
        return self.padding == "valid" and self.kernel > 1

    @property
    def any_grid(self) -> bool:
        return self.into == "tokens"

    @property
    def moments(self) -> frozenset[Moment]:
        if self.into == "query_key":
            return frozenset({"attention"})
        return frozenset("first" if place < 0 else "between" for place in self.places)

    @property
    def layers(self) -> int:
        """How many spatial convolutions stand at one place."""
        return 4 if self.form.endswith("stack") else 1

    def fit(self, shape: Shape) -> None:
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
        match self.form:
            case "depthwise":
                layer = dim * (area + 1)
            case "dense":
                layer = dim * (dim * area + 1)
            case "separable":
                layer = dim * (area + 1) + dim * (dim + 1)
            case "depthwise_stack":
                layer = dim * (area + 2)
            case "dense_stack":
                layer = dim * (dim * area + 2)
        return len(self.places) * self.layers * layer

    def learnt(self, shape: Shape) -> int:
        return 0 if self.frozen else self.parameters(shape)


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
    def moments(self) -> frozenset[Moment]:
        return frozenset(moment for part in self.parts for moment in part.moments)

    @property
    def pairs(self) -> int:
        return max((part.pairs for part in self.parts), default=0)

    def fit(self, shape: Shape) -> None:
        for part, told in self._told(shape.widths):
            require(told.dim > 0, "encoding.parts", "such that the content keeps some channels", self.label)
            part.fit(replace(shape, widths=told))
        takes = self.takes(shape.widths)
        left = min(shape.widths.dim - takes.tokens, shape.widths.head_dim - max(takes.q, takes.k, takes.v))
        require(left > 0, "encoding.parts", "such that the content keeps some channels", self.label)
        for number, part in enumerate(self.parts):
            after, before = self.parts[number + 1 :], self.parts[:number]
            free = all(o.any_grid for o in after) and all(o.any_grid or o.moments <= {"first"} for o in before)
            must = f"codes before the first block and convolutions only, where {part.label} makes the grid smaller"
            require(free or not part.shrinks, "encoding.parts", must, self.label)
        self._check_order(shape.widths)

    def _check_order(self, widths: Widths) -> None:
        """Complains of a part that would act on something it has not been built for."""
        whole, read = False, False
        for part in self.parts:
            takes = part.takes(widths) != Takes()
            must = "in an order in which what takes channels of the content comes first"
            require(not (takes and whole), "encoding.parts", must, self.label)
            must = "in an order in which q and k change before terms read them"
            require(not (part.edits and read), "encoding.parts", must, self.label)
            whole, read = whole or not takes, read or part.reads

    def takes(self, widths: Widths) -> Takes:
        return sum((part.takes(told) for part, told in self._told(widths)), Takes())

    def parameters(self, shape: Shape) -> int:
        return sum(part.parameters(replace(shape, widths=told)) for part, told in self._told(shape.widths))

    def learnt(self, shape: Shape) -> int:
        return sum(part.learnt(replace(shape, widths=told)) for part, told in self._told(shape.widths))

    def _told(self, widths: Widths) -> list[tuple[EncodingSpec, Widths]]:
        """Each part with the widths it will see: one that takes channels of the tokens leaves fewer to those before."""
        told: list[tuple[EncodingSpec, Widths]] = []
        for part in reversed(self.parts):
            told.append((part, widths))
            widths = replace(widths, dim=widths.dim - part.takes(widths).tokens)
        return told


def _kind(value: Any) -> Any:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return "own" if is_own(kind) else kind


Encoding = Annotated[
    Annotated[NoEncoding, Tag("none")]
    | Annotated[Learnable, Tag("learnable")]
    | Annotated[Sinusoidal, Tag("sinusoidal")]
    | Annotated[LearnableSinusoidal, Tag("learnable_sinusoidal")]
    | Annotated[Fourier, Tag("fourier")]
    | Annotated[Gabor, Tag("gabor")]
    | Annotated[Relative, Tag("relative")]
    | Annotated[RelativeBias, Tag("relative_bias")]
    | Annotated[IRPE, Tag("irpe")]
    | Annotated[PEG, Tag("peg")]
    | Annotated[Composed, Tag("composed")]
    | Annotated[OwnEncoding, Tag("own")],
    Discriminator(_kind),
    BeforeValidator(carry_source),
]
Composed.model_rebuild()

KINDS: dict[str, type[EncodingSpec]] = {
    cls.model_fields["kind"].default: cls
    for cls in (get_args(member)[0] for member in get_args(get_args(Encoding)[0]))
    if cls is not OwnEncoding
}
"""Every spec of the house by its kind."""


def canonical(encoding: EncodingSpec) -> EncodingSpec:
    """Nested parts flattened, idle parts dropped, a single part unwrapped, nothing left: `none`."""
    parts = list(_active(encoding))
    if len(parts) > 1:
        return Composed(parts=tuple(parts))  # type: ignore[arg-type]  # each is of the union
    return parts[0] if parts else NoEncoding()


def leaves(encoding: EncodingSpec) -> tuple[EncodingSpec, ...]:
    """The parts of an encoding in canonical form, or itself."""
    return encoding.parts if isinstance(encoding, Composed) else (encoding,)


def _active(encoding: EncodingSpec) -> list[EncodingSpec]:
    if isinstance(encoding, Composed):
        return [active for part in encoding.parts for active in _active(part)]
    return [] if encoding.idle else [encoding]


__all__ = [
    "IRPE", "KINDS", "PEG", "Add", "Composed", "Concat", "Encoding", "EncodingSpec", "Extend", "Fourier",
    "Gabor", "Learnable", "LearnableSinusoidal", "NoEncoding", "OwnEncoding", "Parts", "Relative", "RelativeBias",
    "Shape", "Sinusoidal", "Takes", "Values", "Widths", "canonical", "carry", "is_own", "leaves",
]  # fmt: skip
