"""Image relative position encoding: offsets fall into buckets, and each bucket has a learned term."""

from __future__ import annotations

import math

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import pad

from trainables.encodings import irpe
from trainables.encodings.encoding import Widths
from trainables.encodings.encoding_torch import Grid, Heads, LogitsBHQN, OutputsBHQE, PositionEncoding, coordinates
from trainables.encodings.pair_lookup_torch import looked_up, picked, summed_by_number

BucketsMNN = Int[Tensor, "M N N"]


def piecewise_index(offsets: Tensor, alpha: float, beta: float, gamma: float) -> Tensor:
    """Keeps offsets up to alpha; beyond it their logarithm is rounded, cut at beta and truncated.

    Rounds halves to even. Shapes: any, of whole numbers; int64 of the same shape.
    Source: iRPE eq. 18 and its published code. Differs: in float64, so that no bucket depends on float32's rounding.
    """
    offsets = offsets.double()
    far = offsets.abs().clamp(min=alpha) / alpha
    far = (alpha + far.log() / math.log(gamma / alpha) * (beta - alpha)).round().clamp(max=beta).trunc()
    return torch.where(offsets.abs() <= alpha, offsets.round(), offsets.sign() * far).long()


def numbered(offsets: Tensor, index: irpe.Index) -> Tensor:
    """Returns the numbers of offsets, from -trunc(beta) to trunc(beta). Shapes: any; int64 of the same shape."""
    if isinstance(index, irpe.Clip | irpe.ClipRatio):
        return offsets.long().clamp(-int(index.beta), int(index.beta))
    return piecewise_index(offsets, index.alpha, index.beta, index.gamma)


def bucket_ids(mapping: irpe.Mapping, index: irpe.Index, grid: Grid) -> BucketsMNN:
    """Returns the bucket of every pair (query, key) in each table of a mapping; with a prefix token the last one.

    Shapes: (1, N, N), or (2, N, N) under `cross`: rows, then columns.
    """
    x, y = coordinates(grid).unbind(1)
    rows, columns = y[:, None] - y[None, :], x[:, None] - x[None, :]
    reach = int(index.beta)
    match mapping:
        case irpe.Cross():
            ids = torch.stack([numbered(rows, index), numbered(columns, index)]) + reach
        case irpe.Product():
            ids = ((numbered(rows, index) + reach) * (2 * reach + 1) + numbered(columns, index) + reach)[None]
        case irpe.Euclidean():
            ids = numbered((rows.square() + columns.square()).double().sqrt().round(), index)[None] + reach
        case irpe.Quantization():
            squares = rows.square() + columns.square()
            ranks = torch.unique(squares, return_inverse=True)[1]
            ids = numbered(ranks if mapping.of == "rank" else squares, index)[None] + reach
    last = irpe.buckets(mapping, index, grid.prefix) - 1
    return pad(ids, (grid.prefix, 0, grid.prefix, 0), value=last)


class IRPE(PositionEncoding):
    """Terms from tables of buckets, starting at zero: on keys and queries in the logits, on values in the outputs.

    Shapes: tables.q and tables.k (depth or 1, M, H or 1, E, buckets), tables.v (depth or 1, M, H or 1, buckets, E);
    under `bias` (depth or 1, M, H or 1, buckets). M is 2 under `cross`, else 1.
    Cost: contextual terms need B H N buckets products, then a lookup of N^2 numbers per head; never N x N vectors.
    """

    in_heads = "first"

    def __init__(self, spec: irpe.IRPE, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        self.spec, self.width = spec, widths.head_dim
        self.count = irpe.buckets(spec.mapping, spec.index, grid.prefix)
        self.reads_qk, self.reads_weights = spec.reads_qk, "v" in spec.on
        first = (1 if spec.shared else depth, irpe.tables(spec.mapping), 1 if spec.shared_heads else widths.heads)
        ends: dict[str, tuple[int, ...]] = {"v": (self.count, self.width)}
        if spec.mode == "contextual":
            ends |= {"q": (self.width, self.count), "k": (self.width, self.count)}
        self.tables = nn.ParameterDict({on: torch.empty(*first, *ends.get(on, (self.count,))) for on in spec.on})
        self.register_buffer("ids", bucket_ids(spec.mapping, spec.index, grid), persistent=False)

    def heads(self, h: Heads, block: int) -> Heads:
        every = self.get_buffer("ids")
        for on in [letter for letter in "qk" if letter in self.tables]:
            tables, ids = self._tables(on, block), every[:, : h.queries] if on == "k" else every[:, :, : h.queries]
            if self.spec.mode == "bias":
                terms = [picked(table, index)[None] for table, index in zip(tables, ids, strict=True)]
            else:
                met = (h.q if on == "k" else h.k)[..., : self.width] * self.width**-0.5
                terms = [looked_up(met @ table, index) for table, index in zip(tables, ids, strict=True)]
            term = terms[0] if len(terms) == 1 else terms[0] + terms[1]
            h = h.plus(term if on == "k" else term.mT)  # on queries: by the pair (j, i)
        return h

    def outputs(self, o: OutputsBHQE, weights: LogitsBHQN, grid: Grid, block: int) -> OutputsBHQE:
        if "v" in self.tables:
            ids = self.get_buffer("ids")[:, : o.shape[2]]
            for table, index in zip(self._tables("v", block), ids, strict=True):
                o = o + summed_by_number(weights, index, self.count) @ table
        return o

    def _tables(self, on: str, block: int) -> Tensor:
        return self.get_parameter(f"tables.{on}")[0 if self.spec.shared else block]

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        value.zero_()
