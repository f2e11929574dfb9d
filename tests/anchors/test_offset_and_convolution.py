"""Relative biases and PEG against slow loops, in float64, on grids that are not square."""

import numpy as np
import pytest
import torch

from trainables.catalog import PEG, RelativeBias
from trainables.encoding import Grid, Heads, Tokens, Widths
from trainables.encodings import build
from trainables.initial import draw

GRIDS = [Grid(3, 5), Grid(5, 2, prefix=1)]


def module(spec, grid, dim=8, heads=2, depth=3):
    made = build(spec, Widths(dim, heads, dim // heads), grid, depth)
    draw(made, 0)
    return made.double()


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("shared", [True, False])
def test_relative_bias(grid, shared):
    made = module(RelativeBias(shared=shared), grid)
    table = made.relative_bias.table.data.normal_()
    count, columns = grid.prefix + grid.patches, grid.columns
    some = torch.zeros(3, 2, count, 4, dtype=torch.float64)
    for block in range(3):
        expected = np.zeros((2, count, count))
        for i in range(grid.patches):
            for j in range(grid.patches):
                dr, dc = i // columns - j // columns, i % columns - j % columns
                number = (dr + grid.rows - 1) * (2 * columns - 1) + dc + columns - 1
                entry = table[0 if shared else block, :, number]
                expected[:, i + grid.prefix, j + grid.prefix] = entry
        h = made.heads(Heads(some, some, some, None, grid), block)
        assert h.bias.shape == (1, 2, count, count)
        np.testing.assert_array_equal(h.bias[0].detach(), expected)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_peg(grid, kernel):
    made = module(PEG(places=(-1, 1), kernel=kernel), grid)
    x = torch.randn(3, grid.prefix + grid.patches, 8, dtype=torch.float64)
    for block, place in ((0, "-1"), (2, "1")):
        weight, bias = made.peg.conv[place].weight.detach().numpy(), made.peg.conv[place].bias.detach().numpy()
        expected = x.numpy().copy()
        for row in range(grid.rows):
            for column in range(grid.columns):
                total = np.tile(bias, (3, 1))
                for dr in range(kernel):
                    for dc in range(kernel):
                        r, c = row + dr - kernel // 2, column + dc - kernel // 2
                        if 0 <= r < grid.rows and 0 <= c < grid.columns:
                            total += x[:, grid.prefix + r * grid.columns + c].numpy() * weight[:, 0, dr, dc]
                expected[:, grid.prefix + row * grid.columns + column] += total
        np.testing.assert_allclose(made.tokens(Tokens(x, grid), block).x.detach(), expected, atol=1e-12)
    assert made.tokens(Tokens(x, grid), 1).x is x


def test_relative_bias_begins_at_nothing():
    grid = Grid(3, 5)
    some = torch.zeros(2, 2, 15, 4, dtype=torch.float64)
    assert not module(RelativeBias(), grid).heads(Heads(some, some, some, None, grid), 0).bias.any()
