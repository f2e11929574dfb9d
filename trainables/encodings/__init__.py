"""The list of position encodings: an encoding is one file of this folder and one line here.

A spec says which encoding, with which numbers; what computes it is its method `code`, or the class of the same name in
`x_torch.py` beside its file `x.py`. Grids are R rows by C columns of patches, tokens in row-major order, and blocks
count from 0.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, Discriminator, Tag

from trainables.encodings.composed import Composed, NoEncoding, canonical, parts_of
from trainables.encodings.custom import OwnEncoding, Values, carry, carry_source, is_own, source_of
from trainables.encodings.encoding import (
    INJECTION_POINTS,
    EncodingSpec,
    InjectionPoint,
    ReservedChannels,
    Shape,
    Widths,
)
from trainables.encodings.fourier import Fourier
from trainables.encodings.gabor import Gabor
from trainables.encodings.injection import Add, CodeSpec, Concat, Extend, Parts
from trainables.encodings.irpe import IRPE
from trainables.encodings.learnable import Learnable
from trainables.encodings.peg import PEG
from trainables.encodings.relative import Relative, RelativeBias
from trainables.encodings.sinusoidal import LearnableSinusoidal, Sinusoidal


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
Composed.model_rebuild(_types_namespace={"Encoding": Encoding})

KINDS: dict[str, type[EncodingSpec]] = {
    cls.model_fields["kind"].default: cls
    for cls in (get_args(member)[0] for member in get_args(get_args(Encoding)[0]))
    if cls is not OwnEncoding
}
"""Every spec of the list by its kind."""

__all__ = [
    "INJECTION_POINTS",
    "IRPE",
    "KINDS",
    "PEG",
    "Add",
    "CodeSpec",
    "Composed",
    "Concat",
    "Encoding",
    "EncodingSpec",
    "Extend",
    "Fourier",
    "Gabor",
    "InjectionPoint",
    "Learnable",
    "LearnableSinusoidal",
    "NoEncoding",
    "OwnEncoding",
    "Parts",
    "Relative",
    "RelativeBias",
    "ReservedChannels",
    "Shape",
    "Sinusoidal",
    "Values",
    "Widths",
    "canonical",
    "carry",
    "is_own",
    "parts_of",
    "source_of",
]  # fmt: skip
