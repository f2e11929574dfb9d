"""How a spec becomes a module: a pair `x.py`, `x_torch.py` is found by name."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib import import_module
from typing import Any

from trainables.encodings import Composed, OwnEncoding, canonical, is_own
from trainables.encodings.encoding import EncodingSpec, ReservedChannels, Widths
from trainables.encodings.encoding_torch import Code, Composition, Grid, PositionEncoding
from trainables.encodings.injection import Add, CodeSpec, Slot
from trainables.encodings.injection_torch import INJECTORS, OwnCodes
from trainables.spec import SpecError


def build(spec: EncodingSpec, widths: Widths, grid: Grid, depth: int) -> Composition:
    """The module of an encoding: always a composition, its parts named by kind (`fourier`, a second one `fourier_2`).

    Parts are built from the last to the first: one that takes channels of the tokens leaves fewer to those before it.
    Raises: SpecError where the parts take all channels, or stand in an order that cannot work.
    """
    specs = _parts(spec)
    modules: list[PositionEncoding] = []
    taken = ReservedChannels()
    for part in reversed(specs):
        modules.insert(0, _module(part, replace(widths, dim=widths.dim - taken.tokens), grid, depth))
        taken = taken + modules[0].reserved
        _check_reserved(taken, widths)
    return Composition(dict(zip(_names(specs), modules, strict=True)))


def _parts(spec: EncodingSpec) -> tuple[EncodingSpec, ...]:
    spec = canonical(spec)
    if isinstance(spec, Composed):
        return spec.parts
    return () if spec.is_noop else (spec,)


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
    for slot in spec.injection.codes(depth):
        codes[slot] = _made(spec, replace(widths, dim=spec.injection.width(slot[0], widths)), grid, depth)
    if spec.injection == Add():
        return codes["common", 0]
    injector = INJECTORS[spec.injection.kind](spec.injection, widths, depth)
    if not spec.injection.shared:
        return OwnCodes(codes, injector)
    (code,) = codes.values()
    code.inject_by(injector)
    return code


def _made(spec: EncodingSpec, widths: Widths, grid: Grid, depth: int) -> Any:
    """The module of a spec as its file makes it."""
    if is_own(spec.kind):
        return _own(spec, widths, grid, depth)
    module = import_module(f"{type(spec).__module__}_torch")
    return getattr(module, type(spec).__name__)(spec, widths, grid, depth)


def _own(spec: EncodingSpec, widths: Widths, grid: Grid, depth: int) -> PositionEncoding:
    name = type(spec).__name__
    make = getattr(spec, "build", None)
    if make is None:
        raise SpecError(f"{name} of {spec.kind} must have a method build(widths, grid, depth), got none")
    module = make(widths, grid, depth)
    must = Code if isinstance(spec, CodeSpec) else PositionEncoding
    if not isinstance(module, must):
        raise SpecError(f"{name}.build of {spec.kind} must return a {must.__name__}, got {type(module).__name__}")
    return module


def _check_reserved(reserved: ReservedChannels, widths: Widths) -> None:
    limits = (
        ("the tokens", reserved.tokens, widths.dim),
        *((f"{p} a head", getattr(reserved, p), widths.head_dim) for p in "qkv"),
    )
    for place, taken, channels in limits:
        if taken >= channels:
            raise SpecError(f"encoding must take fewer than the {channels} channels of {place}, got {taken}")
