"""Which file computes which kind, and how a spec becomes a module.

An encoding of the house is a line here and a class `Class(spec, widths, grid, depth)` in its file. `none` and
`composed` have no file: they are compositions. An encoding of a user's own builds itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainables.catalog import Composed, EncodingSpec, OwnEncoding, Takes, Widths, canonical, is_own
from trainables.enters import Add, CodeSpec, Slot
from trainables.spec import SpecError

if TYPE_CHECKING:
    from trainables.encoding import Code, Composition, Entry, Grid, PositionEncoding

MODULES: dict[str, str] = {
    "learnable": "absolute:Learnable",
    "sinusoidal": "sinusoid:Sinusoidal",
    "learnable_sinusoidal": "sinusoid:LearnableSinusoidal",
    "fourier": "fourier:Fourier",
    "gabor": "gabor:Gabor",
    "relative": "offset:Relative",
    "relative_bias": "offset:RelativeBias",
    "irpe": "irpe:IRPE",
    "peg": "convolution:PEG",
}
"""By kind: the file in this folder (without .py) and the class in it that compute it."""

ENTRIES: dict[str, str] = {
    "add": "addition:Added",
    "concat": "concatenation:Concatenated",
    "extend": "concatenation:Extended",
    "parts": "logit_parts:LogitParts",
}
"""By way of entering: the file and the class that have a code enter so. A plain `Add()` is every code's own way."""


def build(spec: EncodingSpec, widths: Widths, grid: Grid, depth: int) -> Composition:
    """The module of an encoding: always a composition, its parts named by kind (`fourier`, a second one `fourier_2`).

    Parts are built from the last to the first: one that takes channels of the tokens leaves fewer to those before it.
    Raises: SpecError where the parts take all channels, or stand in an order that cannot work.
    """
    from trainables.encoding import Composition

    specs = _parts(spec)
    modules: list[PositionEncoding] = []
    taken = Takes()
    for part in reversed(specs):
        modules.insert(0, _module(part, replace(widths, dim=widths.dim - taken.tokens), grid, depth))
        taken = taken + modules[0].takes
        _check_takes(taken, widths)
    return Composition(dict(zip(_names(specs), modules, strict=True)))


def _parts(spec: EncodingSpec) -> tuple[EncodingSpec, ...]:
    spec = canonical(spec)
    if isinstance(spec, Composed):
        return spec.parts
    return () if spec.idle else (spec,)


def _names(specs: tuple[EncodingSpec, ...]) -> list[str]:
    seen: Counter[str] = Counter()
    names = []
    for spec in specs:
        seen[spec.label] += 1
        names.append(spec.label if seen[spec.label] == 1 else f"{spec.label}_{seen[spec.label]}")
    return names


def _module(spec: EncodingSpec, widths: Widths, grid: Grid, depth: int) -> PositionEncoding:
    spec = spec.spec if isinstance(spec, OwnEncoding) else spec
    if isinstance(spec, CodeSpec):
        return _entering(spec, widths, grid, depth)
    module: PositionEncoding = _made(spec, widths, grid, depth)
    return module


def _entering(spec: CodeSpec, widths: Widths, grid: Grid, depth: int) -> PositionEncoding:
    """One code that enters everywhere, or one for each place and block."""
    codes: dict[Slot, Code] = {}
    for slot in spec.enters.codes(depth):
        codes[slot] = _made(spec, replace(widths, dim=spec.enters.width(slot[0], widths)), grid, depth)
    if spec.enters == Add():
        return codes["common", 0]
    entry: Entry = _found(ENTRIES[spec.enters.kind])(spec.enters, widths, depth)
    if not spec.enters.shared:
        own: PositionEncoding = _found("addition:OwnCodes")(codes, entry)
        return own
    (code,) = codes.values()
    code.enter(entry)
    return code


def _made(spec: EncodingSpec, widths: Widths, grid: Grid, depth: int) -> Any:
    """The module of a spec as its file makes it."""
    if is_own(spec.kind):
        return _own(spec, widths, grid, depth)
    return _found(MODULES[spec.kind])(spec, widths, grid, depth)


def _found(name: str) -> Any:
    file, _, attribute = name.partition(":")
    return getattr(import_module(f"trainables.encodings.{file}"), attribute)


def _own(spec: EncodingSpec, widths: Widths, grid: Grid, depth: int) -> PositionEncoding:
    from trainables.encoding import Code, PositionEncoding

    name = type(spec).__name__
    make = getattr(spec, "build", None)
    if make is None:
        raise SpecError(f"{name} of {spec.kind} must have a method build(widths, grid, depth), got none")
    module = make(widths, grid, depth)
    must = Code if isinstance(spec, CodeSpec) else PositionEncoding
    if not isinstance(module, must):
        raise SpecError(f"{name}.build of {spec.kind} must return a {must.__name__}, got {type(module).__name__}")
    return module


def _check_takes(takes: Takes, widths: Widths) -> None:
    room = (
        ("the tokens", takes.tokens, widths.dim),
        *((f"{p} a head", getattr(takes, p), widths.head_dim) for p in "qkv"),
    )
    for place, taken, channels in room:
        if taken >= channels:
            raise SpecError(f"encoding must take fewer than the {channels} channels of {place}, got {taken}")
