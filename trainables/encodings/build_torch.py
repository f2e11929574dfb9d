"""Builds the module of a spec: a declared one from its declaration, another from the pair `x.py`, `x_torch.py`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib import import_module
from typing import Any

from trainables.encodings import OwnEncoding, canonical, parts_of
from trainables.encodings.declared import HeadsSpec
from trainables.encodings.declared_torch import DeclaredCode, DeclaredHeads
from trainables.encodings.encoding import EncodingSpec, Grid, ReservedChannels, Widths
from trainables.encodings.encoding_torch import Code, Composition, PositionEncoding
from trainables.encodings.injection import Add, CodeSpec, Slot
from trainables.encodings.injection_torch import INJECTORS, OwnCodes
from trainables.own import is_own
from trainables.spec import SpecError


def build(spec: EncodingSpec, widths: Widths, grid: Grid, depth: int) -> Composition:
    """Returns the module of an encoding: a composition, its parts named by kind (`fourier`, a second one `fourier_2`).

    Parts are built from the last to the first: one that reserves channels of the tokens leaves fewer to those before.
    Raises: SpecError if the parts reserve all channels, or stand in an order that cannot work.
    """
    specs = [part for part in parts_of(canonical(spec)) if not part.is_noop]
    modules: list[PositionEncoding] = []
    reserved = ReservedChannels()
    for part in reversed(specs):
        modules.insert(0, _module(part, replace(widths, dim=widths.dim - reserved.tokens), grid, depth))
        reserved = reserved + modules[0].reserved
        _check_reserved(reserved, widths)
    return Composition(dict(zip(_names(specs), modules, strict=True)))


def _names(specs: list[EncodingSpec]) -> list[str]:
    seen: Counter[str] = Counter()
    names = []
    for spec in specs:
        seen[spec.label] += 1
        names.append(spec.label if seen[spec.label] == 1 else f"{spec.label}_{seen[spec.label]}")
    return names


def _module(spec: EncodingSpec, widths: Widths, grid: Grid, depth: int) -> PositionEncoding:
    spec = spec.spec if isinstance(spec, OwnEncoding) else spec
    if isinstance(spec, CodeSpec):
        return _injected(spec, widths, grid, depth)
    module: PositionEncoding = _built(spec, widths, grid, depth)
    return module


def _injected(spec: CodeSpec, widths: Widths, grid: Grid, depth: int) -> PositionEncoding:
    """Returns one code for all places and blocks, or a separate one for each."""
    codes: dict[Slot, Code] = {}
    for slot in spec.injection.codes(depth):
        codes[slot] = _built(spec, replace(widths, dim=spec.injection.width(slot[0], widths)), grid, depth)
    if spec.injection == Add():
        return codes["common", 0]
    injector = INJECTORS[spec.injection.kind](spec.injection, widths, depth)
    if not spec.injection.shared:
        return OwnCodes(codes, injector)
    (code,) = codes.values()
    code.inject_by(injector)
    return code


def _built(spec: EncodingSpec, widths: Widths, grid: Grid, depth: int) -> Any:
    """Returns the module of one spec."""
    if hasattr(spec, "build"):
        return _built_by_user(spec, widths, grid, depth)
    if isinstance(spec, CodeSpec) and type(spec).code is not CodeSpec.code:
        return DeclaredCode(spec, widths, grid)
    if isinstance(spec, HeadsSpec) and type(spec).heads is not HeadsSpec.heads:
        return DeclaredHeads(spec, widths, grid, depth)
    if is_own(spec.kind):
        method = {CodeSpec: "code(p, at)", HeadsSpec: "heads(h, terms, block)"}
        need = next((text for cls, text in method.items() if isinstance(spec, cls)), "build(widths, grid, depth)")
        raise SpecError(f"{type(spec).__name__} of {spec.kind} must have a method {need}, got none")
    module = import_module(f"{type(spec).__module__}_torch")
    return getattr(module, type(spec).__name__)(spec, widths, grid, depth)


def _built_by_user(spec: Any, widths: Widths, grid: Grid, depth: int) -> PositionEncoding:
    """Returns what the method `build` of a user's spec returns. Raises: SpecError if that is no position encoding."""
    module = spec.build(widths, grid, depth)
    must = Code if isinstance(spec, CodeSpec) else PositionEncoding
    if not isinstance(module, must):
        name = type(spec).__name__
        raise SpecError(f"{name}.build of {spec.kind} must return a {must.__name__}, got {type(module).__name__}")
    return module


def _check_reserved(reserved: ReservedChannels, widths: Widths) -> None:
    limits = (
        ("the tokens", reserved.tokens, widths.dim),
        *((f"{p} a head", getattr(reserved, p), widths.head_dim) for p in "qkv"),
    )
    for place, count, channels in limits:
        if count >= channels:
            raise SpecError(f"encoding must reserve fewer than the {channels} channels of {place}, got {count}")
