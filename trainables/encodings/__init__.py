"""The list of position encodings: each is one file of this folder, its import here, and one line of `LISTED`.

A spec holds the kind and the numbers of an encoding. Its methods compute it (`CodeSpec`, `HeadsSpec`), or a class of
the same name does in `x_torch.py` beside its file `x.py`. Grids are R rows by C columns of patches, tokens in
row-major order, and blocks count from 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.encodings.alibi import ALiBi as ALiBi
from trainables.encodings.composed import Composed as Composed
from trainables.encodings.composed import NoEncoding as NoEncoding
from trainables.encodings.composed import canonical, parts_of
from trainables.encodings.custom import OwnEncoding
from trainables.encodings.declared import HeadsSpec, Param, linear, normal, trunc_normal, uniform, zeros
from trainables.encodings.encoding import (
    INJECTION_POINTS,
    EncodingSpec,
    Grid,
    InjectionPoint,
    ReservedChannels,
    Shape,
    Widths,
)
from trainables.encodings.factorized import Factorized as Factorized
from trainables.encodings.fire import FIRE as FIRE
from trainables.encodings.fourier import Fourier as Fourier
from trainables.encodings.gabor import Gabor as Gabor
from trainables.encodings.injection import Add, CodeSpec, Concat, Extend, Parts
from trainables.encodings.irpe import IRPE as IRPE
from trainables.encodings.learnable import Learnable as Learnable
from trainables.encodings.lepe import LePE as LePE
from trainables.encodings.log_cpb import LogCPB as LogCPB
from trainables.encodings.look_here import LookHere as LookHere
from trainables.encodings.peg import PEG as PEG
from trainables.encodings.relative import Relative as Relative
from trainables.encodings.relative import RelativeBias as RelativeBias
from trainables.encodings.rotary import Rotary as Rotary
from trainables.encodings.sinusoidal import LearnableSinusoidal as LearnableSinusoidal
from trainables.encodings.sinusoidal import Sinusoidal as Sinusoidal
from trainables.own import one_of

LISTED: tuple[type[EncodingSpec], ...] = (
    NoEncoding,
    Learnable,
    Factorized,
    Sinusoidal,
    LearnableSinusoidal,
    Fourier,
    Gabor,
    Rotary,
    Relative,
    RelativeBias,
    IRPE,
    ALiBi,
    LogCPB,
    LookHere,
    FIRE,
    PEG,
    LePE,
    Composed,
)
"""Every kind of encoding, in the order of messages and tables."""

KINDS: dict[str, type[EncodingSpec]] = {cls.model_fields["kind"].default: cls for cls in LISTED}
"""Every spec of the list by its kind."""


if TYPE_CHECKING:
    Encoding = EncodingSpec
else:
    Encoding = one_of(LISTED, OwnEncoding)
Composed.model_rebuild(_types_namespace={"Encoding": Encoding})

__all__ = [
    "INJECTION_POINTS", "KINDS", "LISTED", "Add", "CodeSpec", "Concat", "Encoding", "EncodingSpec", "Extend", "Grid",
    "HeadsSpec", "InjectionPoint", "OwnEncoding", "Param", "Parts", "ReservedChannels", "Shape", "Widths",
    "canonical", "linear", "normal", "parts_of", "trunc_normal", "uniform", "zeros",
]  # fmt: skip
