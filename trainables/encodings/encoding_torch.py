"""The protocol of position encodings: a method for each point of a ViT where position can be injected.

`tokens` acts before a block, `heads` between projection and softmax, `outputs` after the softmax. Each returns the kind
of thing that it receives and by default changes nothing. So encodings compose by running one after another, and the
empty composition changes nothing. The grid travels with the tokens, so an encoding may return a smaller one. `bias` is
for a term of the logits that depends on no query or key; `heads` adds it. `value_terms` is for a term of the outputs
that depends on no attention weight, so that attention stays fused.

In the last block of a model that is read at its prefix tokens, only these are computed: then `heads` sees the queries
of the first Q of the N tokens, and the keys and values of all.

Letters: B batch, N tokens (prefix and patches), Q queries, P patches, D channels, H heads, E channels per head. Row
before column; a coordinate is (x, y) = (column, row), from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from trainables.encodings.encoding import Grid, OrderedPart, ReservedChannels, Widths, check_flags, order_error
from trainables.encodings.initial_torch import torch_init
from trainables.encodings.injection import Place
from trainables.spec import SpecError

TokensBND = Float[Tensor, "B N D"]
QueriesBHQE = Float[Tensor, "B H Q Eq"]
KeysBHNE = Float[Tensor, "B H N Ek"]
ValuesBHNE = Float[Tensor, "B H N Ev"]
OutputsBHQE = Float[Tensor, "B H Q Ev"]
LogitsBHQN = Float[Tensor, "#B #H Q N"]
CodeND = Float[Tensor, "N D"]
CoordinatesP2 = Int[Tensor, "P 2"]

InHeads = Literal["nothing", "first", "all"]
NEEDS: tuple[InHeads, ...] = ("nothing", "first", "all")
"""What an encoding needs in the heads, from least to most."""

Cache = dict[int, Any]
"""Values that are computed once in a forward pass, by the id of the module that computes them."""


def coordinates(grid: Grid) -> CoordinatesP2:
    """Returns the integer coordinates (x, y) of the patches. Shapes: (P, 2). Units: patches, from 0."""
    rows, columns = torch.meshgrid(torch.arange(grid.rows), torch.arange(grid.columns), indexing="ij")
    return torch.stack([columns.flatten(), rows.flatten()], dim=1)


@dataclass(frozen=True)
class Tokens:
    """Tokens, their grid, and a term that only the next block's queries and keys see added to them.

    `cache`: shared by all blocks of one forward pass.
    """

    x: TokensBND
    grid: Grid
    qk_input: TokensBND | None = None
    cache: Cache = field(default_factory=dict)


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values of one block, and a term of the scaled logits (broadcast over B and H).

    The queries are those of the first Q tokens: all N, or those that are read.
    `cache`: shared by all blocks of one forward pass.
    """

    q: QueriesBHQE
    k: KeysBHNE
    v: ValuesBHNE
    bias: LogitsBHQN | None
    grid: Grid
    cache: Cache = field(default_factory=dict)

    @property
    def queries(self) -> int:
        """How many tokens have a query."""
        return self.q.shape[2]

    def plus(self, term: LogitsBHQN) -> Heads:
        """Returns the same heads with one more term in their logits. It is not scaled by 1/sqrt(E).

        The term may have a row for each of the N tokens; those without a query are dropped.
        """
        term = term[..., : self.queries, :]
        return replace(self, bias=term if self.bias is None else self.bias + term)

    def first(self, queries: int) -> Heads:
        """Returns the same heads with the queries of the first tokens alone."""
        return replace(self, q=self.q[:, :, :queries], bias=None if self.bias is None else self.bias[..., :queries, :])


class PositionEncoding(nn.Module):
    """One position encoding: a subclass overrides the methods it needs and declares what the backbone must know.

    `reserved`: channels of the content it replaces (the backbone projects that many fewer). `modifies_qk`: `heads`
    changes q or k. `reads_qk`: `heads` computes terms from q or k, so parts that change them must come before it.
    `reads_weights`: `outputs` needs the attention weights, which turns fused attention off. `in_heads`: what `heads`
    and `outputs` need: nothing, because they add a bias at most; the first queries, where only these tokens are read;
    or all. `decay`: names of the parameters that weight decay applies to, by default none. `frozen`: its parameters are
    not trained.
    """

    reserved = ReservedChannels()
    modifies_qk = False
    reads_qk = False
    reads_weights = False
    in_heads: InHeads = "all"
    decay: tuple[str, ...] = ()
    frozen = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_flags(cls)

    def tokens(self, t: Tokens, block: int) -> Tokens:
        """Returns the tokens before block number `block`."""
        return t

    def bias(self, grid: Grid, queries: int, block: int) -> LogitsBHQN | None:
        """Returns a term of the first tokens' scaled logits that depends on no query or key, where there is one."""
        return None

    def heads(self, h: Heads, block: int) -> Heads:
        """Changes queries, keys, values and logit term between projection and softmax; by default adds the bias."""
        bias = self.bias(h.grid, h.queries, block)
        return h if bias is None else h.plus(bias)

    def outputs(self, o: OutputsBHQE, weights: LogitsBHQN, grid: Grid, block: int) -> OutputsBHQE:
        """Returns the heads' outputs after the softmax. Called only if `reads_weights`."""
        return o

    def value_terms(self, h: Heads, block: int) -> OutputsBHQE | None:
        """Returns a term of the heads' outputs that depends on their values alone, where there is one.

        `h`: as they are before the softmax, after all parts. An encoding with such a term needs the heads: its
        `in_heads` is first or all.
        """
        return None

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Fills one parameter's initial value from its own random stream; by default that of a torch layer.

        Raises: SpecError for a parameter of no known layer; an encoding with such a parameter overrides this.
        """
        torch_init(self, name, value, stream)

    def resampled(self, name: str, value: Tensor, old: Grid, new: Grid) -> Tensor:
        """Returns a parameter for another grid, without training: the same value, unless it is a table of the grid."""
        return value


def full_precision(like: Tensor) -> AbstractContextManager[Any]:
    """Switches autocast off on a tensor's device: in bfloat16, coordinates and phases would be rounded to 3 digits."""
    return nullcontext() if like.is_meta else torch.autocast(like.device.type, enabled=False)


CodeOf = Callable[[Place, int], CodeND]
"""The code for a place of a block."""


class Injector:
    """How codes are injected into a model. Its attributes are as a position encoding declares them."""

    reserved = ReservedChannels()
    modifies_qk = False
    in_heads: InHeads = "first"

    def tokens(self, t: Tokens, block: int, code: CodeOf) -> Tokens:
        """Returns the tokens with the code of their places."""
        return t

    def heads(self, h: Heads, block: int, code: CodeOf) -> Heads:
        """Returns the heads with the code of their places."""
        return h


class AddedFirst(Injector):
    """Codes are added to the tokens before the first block."""

    in_heads: InHeads = "nothing"

    def tokens(self, t: Tokens, block: int, code: CodeOf) -> Tokens:
        return t if block > 0 else replace(t, x=t.x + code("common", 0))


class Code(PositionEncoding):
    """A code of every token's place, which its `injector` injects: by default added before the first block.

    It is computed once in a forward pass, with autocast switched off, however many places and blocks it is injected in.
    """

    injector: Injector = AddedFirst()

    @property
    def in_heads(self) -> InHeads:  # type: ignore[override]
        """As its injector, unless a subclass acts in the heads itself."""
        acts = type(self).heads is not Code.heads or type(self).outputs is not PositionEncoding.outputs
        return "all" if acts else self.injector.in_heads

    def code(self) -> CodeND:
        """Returns the code of all N tokens, prefix first. Shapes: (N, D)."""
        raise NotImplementedError

    def inject_by(self, injector: Injector) -> None:
        """Replaces the way in which the code is injected."""
        self.injector, self.reserved, self.modifies_qk = injector, injector.reserved, injector.modifies_qk

    def cached(self, like: Tensor, cache: Cache) -> CodeND:
        """Returns the code, from the cache of this forward pass; `like` is a tensor on the device in use."""
        if id(self) not in cache:
            with full_precision(like):
                cache[id(self)] = self.code()
        code: Tensor = cache[id(self)]
        return code

    def tokens(self, t: Tokens, block: int) -> Tokens:
        return self.injector.tokens(t, block, lambda place, block: self.cached(t.x, t.cache))

    def heads(self, h: Heads, block: int) -> Heads:
        return self.injector.heads(h, block, lambda place, block: self.cached(h.q, h.cache))


class Composition(PositionEncoding):
    """Encodings by name, one after another; the empty composition changes nothing.

    Raises: SpecError if a part comes after one that changes what it needs, such as the number of channels.
    """

    def __init__(self, parts: Mapping[str, PositionEncoding]) -> None:
        super().__init__()
        error = order_error(_ordered(parts))
        if error is not None:
            raise SpecError(f"encoding.parts must be {error[0]}, got {error[1]}")
        for name, part in parts.items():
            self.add_module(name, part)
        self.parts = tuple(parts)
        self.reserved = sum((part.reserved for part in parts.values()), ReservedChannels())
        self.modifies_qk = any(part.modifies_qk for part in parts.values())
        self.reads_qk = any(part.reads_qk for part in parts.values())
        self.reads_weights = any(part.reads_weights for part in parts.values())
        self.in_heads = max((part.in_heads for part in parts.values()), key=NEEDS.index, default="nothing")

    def tokens(self, t: Tokens, block: int) -> Tokens:
        for name in self.parts:
            t = self.part(name).tokens(t, block)
        return t

    def bias(self, grid: Grid, queries: int, block: int) -> LogitsBHQN | None:
        return _sum([self.part(name).bias(grid, queries, block) for name in self.parts])

    def heads(self, h: Heads, block: int) -> Heads:
        for name in self.parts:
            h = self.part(name).heads(h, block)
        return h

    def outputs(self, o: OutputsBHQE, weights: LogitsBHQN, grid: Grid, block: int) -> OutputsBHQE:
        for name in self.parts:
            o = self.part(name).outputs(o, weights, grid, block)
        return o

    def value_terms(self, h: Heads, block: int) -> OutputsBHQE | None:
        return _sum([self.part(name).value_terms(h, block) for name in self.parts])

    def part(self, name: str) -> PositionEncoding:
        """Returns the part of a name: its kind, or `kind_2` for a second part of that kind."""
        part = self._modules[name]
        assert isinstance(part, PositionEncoding)
        return part


def _sum(terms: list[Tensor | None]) -> Tensor | None:
    total: Tensor | None = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def _ordered(parts: Mapping[str, PositionEncoding]) -> Iterator[OrderedPart]:
    """Yields all parts in order, those of nested compositions included."""
    for name, part in parts.items():
        if isinstance(part, Composition):
            yield from _ordered({name: part.part(name) for name in part.parts})
        else:
            yield OrderedPart(name, part.reserved != ReservedChannels(), part.modifies_qk, part.reads_qk)


__all__ = [
    "Cache", "Code", "CodeND", "CodeOf", "Composition", "Grid", "Heads", "InHeads", "Injector", "LogitsBHQN",
    "OutputsBHQE", "PositionEncoding", "ReservedChannels", "Tokens", "ValuesBHNE", "Widths", "coordinates",
    "full_precision",
]  # fmt: skip
