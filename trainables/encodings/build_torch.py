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
        limits = [("the tokens", reserved.tokens, widths.dim)]
        limits += [(f"{letter} a head", getattr(reserved, letter), widths.head_dim) for letter in "qkv"]
        for owner, count, channels in limits:
            if count >= channels:
                raise SpecError(f"encoding must reserve fewer than the {channels} channels of {owner}, got {count}")
    counts: Counter[str] = Counter()
    names = []
    for part in specs:
        counts[part.label] += 1
        names.append(part.label if counts[part.label] == 1 else f"{part.label}_{counts[part.label]}")
    return Composition(dict(zip(names, modules, strict=True)))


def _module(spec: EncodingSpec, widths: Widths, grid: Grid, depth: int) -> PositionEncoding:
    """Returns the module of a part; of a code that is injected, one for all places and blocks, or one for each."""
    spec = spec.spec if isinstance(spec, OwnEncoding) else spec
    if not isinstance(spec, CodeSpec):
        module: PositionEncoding = _built(spec, widths, grid, depth)
        return module
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


def _built(spec: Any, widths: Widths, grid: Grid, depth: int) -> Any:
    """Returns the module of one spec. Raises: SpecError if a user's spec makes none, or no position encoding."""
    if hasattr(spec, "build"):
        module = spec.build(widths, grid, depth)
        must = Code if isinstance(spec, CodeSpec) else PositionEncoding
        if not isinstance(module, must):
            name = type(spec).__name__
            raise SpecError(f"{name}.build of {spec.kind} must return a {must.__name__}, got {type(module).__name__}")
        return module
    if isinstance(spec, CodeSpec) and type(spec).code is not CodeSpec.code:
        return DeclaredCode(spec, widths, grid)
    if isinstance(spec, HeadsSpec) and type(spec).heads is not HeadsSpec.heads:
        return DeclaredHeads(spec, widths, grid, depth)
    if is_own(spec.kind):
        methods = {CodeSpec: "code(p, at)", HeadsSpec: "heads(h, terms, block)"}
        need = next((text for cls, text in methods.items() if isinstance(spec, cls)), "build(widths, grid, depth)")
        raise SpecError(f"{type(spec).__name__} of {spec.kind} must have a method {need}, got none")
    return getattr(import_module(f"{type(spec).__module__}_torch"), type(spec).__name__)(spec, widths, grid, depth)
