"""Every position encoding's spec, by its kind: what it is called, its knobs and their units.

A spec says which encoding; the code that computes it lies in `encodings/`, one file a family. Grids are R rows by C
columns of patches, tokens in row-major order, and blocks count from 0.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from trainables.source import load
from trainables.spec import Spec, SpecError, require


class EncodingSpec(Spec):
    """One position encoding with its numbers.

    An encoding of one's own derives from this in a file of its own, gives `kind` the default "file.py:Class" and has a
    method `build(widths, grid, depth)` that returns a `trainables.encoding.PositionEncoding`.
    """

    kind: str

    @property
    def idle(self) -> bool:
        """True where the encoding does nothing, so that a recipe with it equals one without it."""
        return False

    @property
    def label(self) -> str:
        """The name in tables and MLflow."""
        return self.kind

    def fit(self, dim: int, heads: int, rows: int, columns: int, depth: int) -> None:
        """Complains with `require` where this encoding cannot stand in a ViT of this shape."""


class NoEncoding(EncodingSpec):
    """No position at all: the model sees a bag of patches."""

    kind: Literal["none"] = Field(default="none", init=False)

    @property
    def idle(self) -> bool:
        return True


class Learnable(EncodingSpec):
    """A free table, one row a token, the class token included.

    Source: thesis 3.1; DeiT. Differs: the class token has a row, as in DeiT (the thesis adds it afterwards).
    """

    kind: Literal["learnable"] = Field(default="learnable", init=False)
    std: float = Field(default=0.02, gt=0, description="a positive standard deviation")


class Sinusoidal(EncodingSpec):
    """Fixed 2-D sines and cosines: the first half of the channels x, the second y.

    Source: thesis eq. 1. Differs: the class token gets zeros (the thesis does not say).
    """

    kind: Literal["sinusoidal"] = Field(default="sinusoidal", init=False)

    def fit(self, dim: int, heads: int, rows: int, columns: int, depth: int) -> None:
        require(dim % 4 == 0, "model.dim", f"divisible by 4 for {self.kind} codes", dim)


class LearnableSinusoidal(EncodingSpec):
    """Sines and cosines of learned linear maps of (x, y), equal to `sinusoidal` at the start.

    Source: thesis eq. 6. Differs: sine before cosine, as the equality with eq. 1 demands.
    """

    kind: Literal["learnable_sinusoidal"] = Field(default="learnable_sinusoidal", init=False)

    def fit(self, dim: int, heads: int, rows: int, columns: int, depth: int) -> None:
        require(dim % 4 == 0, "model.dim", f"divisible by 4 for {self.kind} codes", dim)


class Fourier(EncodingSpec):
    """Learnable Fourier features of the coordinates, through a small MLP.

    Units: gamma is a length, in patches with raw coordinates, in grid widths with unit ones.
    Source: thesis eq. 3. Differs: frequencies start with standard deviation 1/gamma; eq. 4 drops two factors, so the
    features' expected inner product is 0.5 exp(-d^2 / (2 gamma^2)).
    """

    kind: Literal["fourier"] = Field(default="fourier", init=False)
    gamma: float = Field(default=2.5, gt=0, description="a positive length in patches")
    features: int | None = Field(
        default=None, gt=0, description="a positive even number of features, or null for the model's dim"
    )
    hidden: int = Field(default=32, gt=0, description="a positive width of the MLP")
    coordinates: Literal["raw", "unit"] = Field(
        default="raw", description="'raw' (patches, from 0) or 'unit' (scaled to [0, 1])"
    )

    @model_validator(mode="after")
    def _even(self) -> Fourier:
        require(self.features is None or self.features % 2 == 0, "features", "even", self.features)
        return self

    def fit(self, dim: int, heads: int, rows: int, columns: int, depth: int) -> None:
        require(self.features is not None or dim % 2 == 0, "model.dim", "even for fourier features", dim)


class RelativeBias(EncodingSpec):
    """One learnable scalar a head for each offset (query minus key), added to the logits.

    Source: CPVT's LE + RPE row (`shared`); timm's RelPosBias. Differs: pairs with a prefix token get zero.
    """

    kind: Literal["relative_bias"] = Field(default="relative_bias", init=False)
    shared: bool = Field(default=False, description="true (one table for all blocks) or false (own tables a block)")


class PEG(EncodingSpec):
    """A depth-wise convolution over the token map, with a residual: conditional position encoding.

    Units: place -1 is before the first block, i after block i. Source: CPVT algorithm 1. Differs: the default place is
    -1, the only one that every depth has; CPVT prefers 0.
    """

    kind: Literal["peg"] = Field(default="peg", init=False)
    places: tuple[int, ...] = Field(
        default=(-1,), strict=False, description="block indices from -1 on, without doubles"
    )
    kernel: int = Field(default=3, gt=0, description="a positive odd kernel size")

    @model_validator(mode="after")
    def _legal(self) -> PEG:
        require(len(set(self.places)) == len(self.places), "places", "without doubles", list(self.places))
        require(all(place >= -1 for place in self.places), "places", "block indices from -1 on", list(self.places))
        require(self.kernel % 2 == 1, "kernel", "odd", self.kernel)
        return self

    @property
    def idle(self) -> bool:
        return not self.places

    def fit(self, dim: int, heads: int, rows: int, columns: int, depth: int) -> None:
        legal = f"block indices from -1 to {depth - 2} in a model of depth {depth}"
        require(all(place <= depth - 2 for place in self.places), "encoding.places", legal, list(self.places))


class Composed(EncodingSpec):
    """Several encodings, one after the other: `encoding.parts.1.beta` is the second part's beta."""

    kind: Literal["composed"] = Field(default="composed", init=False)
    parts: tuple[Encoding, ...] = Field(strict=False, description="a list of encodings")

    @property
    def label(self) -> str:
        return "+".join(part.label for part in self.parts) or "none"

    def fit(self, dim: int, heads: int, rows: int, columns: int, depth: int) -> None:
        for part in self.parts:
            part.fit(dim, heads, rows, columns, depth)


class OwnEncoding(EncodingSpec):
    """An encoding from a user's file: its kind is "file.py:Class", and it carries that file's source wherever it goes.

    The knobs of the class are fields of this node (`encoding.turns`), completed and checked by the class.
    """

    model_config = ConfigDict(extra="allow")

    kind: str = Field(pattern=r"^[\w.-]+\.py:\w+$", description="written as 'file.py:Class'")
    source: str = Field(description="the text of the file")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: Any) -> Any:
        if isinstance(value, dict) and {"kind", "source"} <= value.keys():
            knobs = {name: item for name, item in value.items() if name not in ("kind", "source")}
            return {**value, **_own_class(value["kind"], value["source"]).read(knobs).plain()}
        return value

    @property
    def spec(self) -> EncodingSpec:
        """The user's own spec, an instance of the class that `kind` names."""
        return _own_class(self.kind, self.source).read(self.model_extra or {})

    @property
    def label(self) -> str:
        return self.kind.rpartition(":")[2]

    def fit(self, dim: int, heads: int, rows: int, columns: int, depth: int) -> None:
        self.spec.fit(dim, heads, rows, columns, depth)

    def identity(self) -> Any:
        return self.spec.identity()


def _own_class(kind: str, source: str) -> type[EncodingSpec]:
    file, _, name = kind.partition(":")
    found = getattr(load(file, source), name, None)
    if not (isinstance(found, type) and issubclass(found, EncodingSpec)):
        raise SpecError(f"encoding.kind must name an EncodingSpec in {file}, got {name!r}")
    if found.model_fields["kind"].default != kind:
        raise SpecError(f"{name}.kind in {file} must be {kind!r}, got {found.model_fields['kind'].default!r}")
    return found


def is_own(kind: object) -> bool:
    """True for a kind such as "mine.py:Spiral"."""
    return isinstance(kind, str) and ".py:" in kind


def _carry_source(value: Any) -> Any:
    """A user's spec becomes an OwnEncoding with the source of the file that defines its class."""
    if isinstance(value, EncodingSpec) and is_own(value.kind) and not isinstance(value, OwnEncoding):
        loaded = getattr(sys.modules[type(value).__module__], "__source__", None)
        return OwnEncoding(**value.plain(), source=loaded or _source(value.kind))
    return value


def _source(kind: str) -> str:
    """The text of a kind's file: of the one being loaded, else from the working folder, else as it was loaded last."""
    file = kind.partition(":")[0]
    modules = [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
    loaded = [names for names in modules if "__source__" in names and names["__file__"] == file]
    loading = [names for names in loaded if "__loading__" in names]
    if not loading and Path(file).is_file():
        return Path(file).read_text()
    if not loaded:
        raise SpecError(f"encoding.kind must name a file of the working folder, got {kind!r}")
    return str((loading or loaded)[-1]["__source__"])


def carry(values: Any) -> Any:
    """`{path: value}` as plain values; where an own encoding is named, its file's source comes along."""
    if not isinstance(values, Mapping):
        return values
    carried: dict[str, Any] = {}
    for path, value in values.items():
        given = _carry_source(value)
        carried[path] = given.plain() if isinstance(given, Spec) else given
        beside = path.removesuffix("kind") + "source"
        if path.endswith("kind") and is_own(given) and beside not in values:
            carried[beside] = _source(given)
    return carried


Values = Annotated[dict[str, Any], BeforeValidator(carry)]
"""`{path: value}` to be put on a recipe, as arms, points and budgets say it."""


def _kind(value: Any) -> Any:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return "own" if is_own(kind) else kind


Encoding = Annotated[
    Annotated[NoEncoding, Tag("none")]
    | Annotated[Learnable, Tag("learnable")]
    | Annotated[Sinusoidal, Tag("sinusoidal")]
    | Annotated[LearnableSinusoidal, Tag("learnable_sinusoidal")]
    | Annotated[Fourier, Tag("fourier")]
    | Annotated[RelativeBias, Tag("relative_bias")]
    | Annotated[PEG, Tag("peg")]
    | Annotated[Composed, Tag("composed")]
    | Annotated[OwnEncoding, Tag("own")],
    Discriminator(_kind),
    BeforeValidator(_carry_source),
]
Composed.model_rebuild()

KINDS: dict[str, type[EncodingSpec]] = {
    cls.model_fields["kind"].default: cls
    for cls in (NoEncoding, Learnable, Sinusoidal, LearnableSinusoidal, Fourier, RelativeBias, PEG, Composed)
}


def canonical(encoding: EncodingSpec) -> EncodingSpec:
    """Nested parts flattened, idle parts dropped, a single part unwrapped, nothing left: `none`."""
    parts = list(_active(encoding))
    if len(parts) > 1:
        return Composed(parts=tuple(parts))  # type: ignore[arg-type]  # each is of the union
    return parts[0] if parts else NoEncoding()


def _active(encoding: EncodingSpec) -> list[EncodingSpec]:
    if isinstance(encoding, Composed):
        return [active for part in encoding.parts for active in _active(part)]
    return [] if encoding.idle else [encoding]
