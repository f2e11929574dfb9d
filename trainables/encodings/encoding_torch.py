"""The protocol of position encodings: position enters a ViT at three moments, one verb each.

`tokens` acts before a block, `heads` between the projection and the softmax, `outputs` after the softmax. Each verb
maps a thing to the same kind of thing and does nothing by default, so encodings compose by doing one after another,
and the empty composition is the unit. The grid travels with the tokens, so an encoding may return a smaller one.

Letters: B batch, N tokens (prefix and patches), P patches, D channels, H heads, E channels a head. Row before column;
a coordinate is (x, y) = (column, row), from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from trainables.encodings.encoding import ReservedChannels, Shape, Widths
from trainables.encodings.initial_torch import torch_init
from trainables.encodings.injection import Place
from trainables.spec import SpecError

TokensBND = Float[Tensor, "B N D"]
QueriesBHNE = Float[Tensor, "B H N Eq"]
KeysBHNE = Float[Tensor, "B H N Ek"]
ValuesBHNE = Float[Tensor, "B H N Ev"]
LogitsBHNN = Float[Tensor, "#B #H N N"]
CodeND = Float[Tensor, "N D"]
CoordinatesP2 = Int[Tensor, "P 2"]


@dataclass(frozen=True)
class Grid:
    """Rows and columns of patches, in row-major order after `prefix` tokens that have no place."""

    rows: int
    columns: int
    prefix: int = 0

    @classmethod
    def of(cls, shape: Shape) -> Grid:
        """The grid of a backbone, or a stage of it, of this shape."""
        return cls(shape.rows, shape.columns, shape.prefix)

    @property
    def patches(self) -> int:
        """How many tokens have a place."""
        return self.rows * self.columns

    def coordinates(self) -> CoordinatesP2:
        """The integer coordinates (x, y) of the patches. Shapes: (P, 2). Units: patches, from 0."""
        rows, columns = torch.meshgrid(torch.arange(self.rows), torch.arange(self.columns), indexing="ij")
        return torch.stack([columns.flatten(), rows.flatten()], dim=1)


@dataclass(frozen=True)
class Tokens:
    """Tokens, the grid they stand on, and what the block's queries and keys alone see on top of them."""

    x: TokensBND
    grid: Grid
    qk_input: TokensBND | None = None


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values of one block, and a term to be added to the scaled logits (broadcast over B and H)."""

    q: QueriesBHNE
    k: KeysBHNE
    v: ValuesBHNE
    bias: LogitsBHNN | None
    grid: Grid

    def plus(self, term: LogitsBHNN) -> Heads:
        """The same heads with one more term in their logits. It is not scaled by 1/sqrt(E)."""
        return replace(self, bias=term if self.bias is None else self.bias + term)


class PositionEncoding(nn.Module):
    """One position encoding: override the verbs it needs, and declare what the backbone must know.

    `reserved`: channels of the content it replaces (the backbone projects that many fewer). `modifies_qk`: `heads`
    changes q or k; `reads_qk`: `heads` adds terms computed from q or k (so what
    modifies them must come before it). `reads_weights`: `outputs` needs the attention weights, which costs the fused
    attention. `no_decay`: names of parameters without weight decay. `frozen`: its parameters stay as they start.
    """

    reserved = ReservedChannels()
    modifies_qk = False
    reads_qk = False
    reads_weights = False
    no_decay: tuple[str, ...] = ()
    frozen = False

    def tokens(self, t: Tokens, block: int) -> Tokens:
        """The tokens as block number `block` shall see them."""
        return t

    def heads(self, h: Heads, block: int) -> Heads:
        """Queries, keys, values and logit term between projection and softmax."""
        return h

    def outputs(self, o: ValuesBHNE, weights: LogitsBHNN, grid: Grid, block: int) -> ValuesBHNE:
        """What the heads put out, after the softmax. Called only where `reads_weights`."""
        return o

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Fills one parameter's initial value, drawing from its own stream. Layers start as torch starts them.

        Raises: SpecError for a parameter that stands in no known layer; an encoding with such a one overrides this.
        """
        torch_init(self, name, value, stream)

    def resampled(self, name: str, value: Tensor, old: Grid, new: Grid) -> Tensor:
        """What one parameter becomes for another grid, without training: itself, unless it is a table of the grid."""
        return value


CodeOf = Callable[[Place, int], CodeND]
"""The code that enters at a place of a block."""


class Injector:
    """How codes are injected into a model. `reserved`, `modifies_qk`: as a position encoding declares them."""

    reserved = ReservedChannels()
    modifies_qk = False

    def tokens(self, t: Tokens, block: int, code: CodeOf) -> Tokens:
        """The tokens with the code of their places."""
        return t

    def heads(self, h: Heads, block: int, code: CodeOf) -> Heads:
        """The heads with the code of their places."""
        return h


class AddedFirst(Injector):
    """Codes are added to the tokens before the first block."""

    def tokens(self, t: Tokens, block: int, code: CodeOf) -> Tokens:
        return t if block > 0 else replace(t, x=t.x + code("common", 0))


class Code(PositionEncoding):
    """A code of every token's place, which enters as its `entry` says: added before the first block, if nothing else.

    A spec with an `injection` is built for the channels that its code has there: `widths.dim`.
    """

    injector: Injector = AddedFirst()

    def code(self) -> CodeND:
        """The code of all N tokens, prefix first. Shapes: (N, D)."""
        raise NotImplementedError

    def inject_by(self, injector: Injector) -> None:
        """Has the code enter in another way than by addition before the first block."""
        self.injector, self.reserved, self.modifies_qk = injector, injector.reserved, injector.modifies_qk

    def tokens(self, t: Tokens, block: int) -> Tokens:
        return self.injector.tokens(t, block, lambda place, block: self.code())

    def heads(self, h: Heads, block: int) -> Heads:
        return self.injector.heads(h, block, lambda place, block: self.code())


class Composition(PositionEncoding):
    """Encodings by name, one after another; the empty one does nothing.

    Raises: SpecError for an order in which a part would act on something it has not been built for.
    """

    def __init__(self, parts: Mapping[str, PositionEncoding]) -> None:
        super().__init__()
        _check_order(parts)
        for name, part in parts.items():
            self.add_module(name, part)
        self.parts = tuple(parts)
        self.reserved = sum((part.reserved for part in parts.values()), ReservedChannels())
        self.modifies_qk = any(part.modifies_qk for part in parts.values())
        self.reads_qk = any(part.reads_qk for part in parts.values())
        self.reads_weights = any(part.reads_weights for part in parts.values())

    def tokens(self, t: Tokens, block: int) -> Tokens:
        for name in self.parts:
            t = self.part(name).tokens(t, block)
        return t

    def heads(self, h: Heads, block: int) -> Heads:
        for name in self.parts:
            h = self.part(name).heads(h, block)
        return h

    def outputs(self, o: ValuesBHNE, weights: LogitsBHNN, grid: Grid, block: int) -> ValuesBHNE:
        for name in self.parts:
            o = self.part(name).outputs(o, weights, grid, block)
        return o

    def part(self, name: str) -> PositionEncoding:
        """The part of that name: its kind, `kind_2` for a second one."""
        part = self._modules[name]
        assert isinstance(part, PositionEncoding)
        return part


def _leaves(parts: Mapping[str, PositionEncoding]) -> Iterator[tuple[str, PositionEncoding]]:
    for name, part in parts.items():
        if isinstance(part, Composition):
            yield from _leaves({name: part.part(name) for name in part.parts})
        else:
            yield name, part


def _check_order(parts: Mapping[str, PositionEncoding]) -> None:
    whole: str | None = None
    reader: str | None = None
    for name, part in _leaves(parts):
        reserved = part.reserved != ReservedChannels()
        if reserved and whole is not None:
            raise SpecError(
                f"encoding.parts must begin with what takes channels of the content, got {whole} before {name}"
            )
        if part.modifies_qk and reader is not None:
            raise SpecError(f"encoding.parts must change q and k before terms read them, got {reader} before {name}")
        whole = whole if reserved else name
        reader = name if part.reads_qk else reader


__all__ = [
    "Code",
    "CodeND",
    "Composition",
    "Grid",
    "Heads",
    "Injector",
    "LogitsBHNN",
    "PositionEncoding",
    "ReservedChannels",
    "Tokens",
    "Widths",
]  # fmt: skip
