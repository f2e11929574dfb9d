"""Relative vectors and biases against loops over pairs, forward and backward, in float64, on uneven grids."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.anchors.pairs import GRIDS, SCALE, content, fast, module, place, same, slow
from trainables.encodings import IRPE, Relative, RelativeBias, Widths
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, Heads
from trainables.encodings.irpe import Cross
from trainables.encodings.relative import ClippedOffsets, SplitOffsets
from trainables.encodings.relative_torch import clipped_index, line_index


def clip(offset, reach):
    return max(-reach, min(reach, offset))


def vector(tables, table, i, j, grid, reach):
    """The vector of the pair (query i, key j); zeros where one of them has no place."""
    at, to = place(i, grid), place(j, grid)
    if at is None or to is None:
        return torch.zeros(4, dtype=torch.float64)
    dr, dc = to[0] - at[0], to[1] - at[1]
    if reach is None:
        return torch.cat([tables.rows[table, dr + grid.rows - 1], tables.columns[table, dc + grid.columns - 1]])
    return tables.vectors[table, (clip(dr, reach) + reach) * (2 * reach + 1) + clip(dc, reach) + reach]


@pytest.mark.parametrize("grid", [*GRIDS, Grid(1, 4, prefix=2)], ids=str)
@pytest.mark.parametrize("reach", [None, 1, 8])
@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_relative(grid, reach, value, shared):
    offsets = SplitOffsets() if reach is None else ClippedOffsets(reach=reach)
    made = module(Relative(offsets=offsets, value=value, shared=shared), grid)
    tables = made.relative
    table = 0 if shared else 1

    def logit(b, h, i, j):
        return SCALE * q[b, h, i] @ (k[b, h, j] + vector(tables.keys, table, i, j, grid, reach))

    def seen(b, h, i, j):
        return v[b, h, j] + (vector(tables.values, table, i, j, grid, reach) if value else 0)

    q, k, v = qkv = content(grid)
    same(made, fast(made, qkv, grid, block=1), slow(qkv, logit, seen), qkv)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("shared", [True, False])
def test_relative_bias(grid, shared):
    made = module(RelativeBias(shared=shared), grid)
    table = made.relative_bias.table[0 if shared else 1]

    def logit(b, h, i, j):
        at, to = place(i, grid), place(j, grid)
        if at is None or to is None:
            return SCALE * q[b, h, i] @ k[b, h, j]
        dr, dc = at[0] - to[0], at[1] - to[1]
        number = (dr + grid.rows - 1) * (2 * grid.columns - 1) + dc + grid.columns - 1
        return SCALE * q[b, h, i] @ k[b, h, j] + table[h, number]

    q, k, v = qkv = content(grid)
    same(made, fast(made, qkv, grid, block=1), slow(qkv, logit, lambda b, h, i, j: v[b, h, j]), qkv)


def test_numbers_of_offsets_are_key_minus_query():
    assert line_index(3).tolist() == [[2, 3, 4], [1, 2, 3], [0, 1, 2]]
    assert clipped_index(Grid(2, 3), 1)[0].tolist() == [4, 5, 5, 7, 8, 8]


@pytest.mark.parametrize(("spec", "count"), [
    (Relative(), 12 * (27 + 27) * 32),
    (Relative(value=True, shared=True), 2 * (27 + 27) * 32),
    (Relative(offsets=ClippedOffsets()), 12 * 17**2 * 64),
], ids=["split", "with values", "clipped"])  # fmt: skip
def test_sizes_of_the_tables(spec, count):
    made = build(spec, Widths(192, 3, 64), Grid(14, 14, prefix=1), 12)
    assert sum(value.numel() for value in made.parameters()) == count


class Largest(TorchDispatchMode):
    """Watches how many numbers the largest tensor holds."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        made = [out] if isinstance(out, torch.Tensor) else [one for one in out if isinstance(one, torch.Tensor)]
        for one in made:
            self.numbers = max(self.numbers, one.untyped_storage().nbytes() // one.element_size())
        return out


@pytest.mark.parametrize("spec", [
    IRPE(on=("q", "k", "v")), IRPE(mapping=Cross()),
    Relative(value=True), Relative(offsets=ClippedOffsets(reach=3), value=True),
], ids=["irpe", "irpe cross", "split", "clipped"])  # fmt: skip
def test_pairs_have_numbers_and_never_vectors(spec):
    """Forward and backward build nothing as large as a vector for each pair."""
    grid = Grid(9, 7)
    made = build(spec, Widths(64, 2, 32), grid, 1)
    for value in made.parameters():
        torch.nn.init.normal_(value)
    q, k, v = (torch.randn(2, 2, grid.patches, 32, requires_grad=True) for _ in range(3))
    with Largest() as largest:
        h = made.heads(Heads(q, k, v, None, grid), 0)
        weights = (h.q @ h.k.mT if h.bias is None else h.q @ h.k.mT + h.bias).softmax(3)
        made.outputs(weights @ v, weights, grid, 0).sum().backward()
    assert grid.patches**2 <= largest.numbers < grid.patches**2 * 32
