"""Gabor waves and edge markers against a loop over patches and channels, and the paper's counts."""

import math

import pytest
import torch

from tests.anchors.pairs import module, same
from trainables.encodings import Add, Composed, Gabor, Learnable, Parts, Widths
from trainables.encodings.build_torch import build
from trainables.encodings.declared_torch import Positions
from trainables.encodings.encoding_torch import Grid, Tokens
from trainables.encodings.gabor import edge_maps
from trainables.training.init import init_weights


def positions(grid):
    return Positions.of(grid, Widths(8, 2, 4))


def slow_code(part, grid, form):
    """The paper's sum for every patch and channel; prefix rows first."""
    rows = list(part.prefix) if grid.prefix else []
    for token in range(grid.patches):
        row, column = divmod(token, grid.columns)
        x, y = 2 * column / (grid.columns - 1) - 1, 2 * row / (grid.rows - 1) - 1
        edges = [column == 0, column == grid.columns - 1, row == 0, row == grid.rows - 1]
        channels = []
        for d in range(8):
            total = part.offset[d]
            for axis, at in enumerate((x, y)):
                if form != "edge":
                    sigma, wave = part.log_sigma[d, axis].exp(), part.log_wavelength[d, axis].exp()
                    bell = torch.exp(-(at**2) / (2 * sigma**2))
                    cosine = torch.cos(2 * math.pi * at / wave + part.phase[d, axis])
                    total = total + bell * cosine * part.weight[d, axis]
            if form != "gabor":
                total = total + sum(part.edges[d, side] for side in range(4) if edges[side])
            channels.append(total)
        rows.append(torch.stack(channels))
    return torch.stack(rows)


@pytest.mark.parametrize("form", ["gabor+edge", "gabor", "edge"])
@pytest.mark.parametrize("grid", [Grid(3, 5), Grid(4, 2, prefix=1)], ids=str)
def test_code(form, grid):
    made = module(Gabor(form=form), grid)
    zeros = torch.zeros(2, grid.prefix + grid.patches, 8, dtype=torch.float64)
    code = made.tokens(Tokens(zeros, grid), 0).x[1]
    same(made, code, slow_code(made.gabor, grid, form), [])


def test_x_runs_along_columns_and_corners_have_two_edges():
    grid = Grid(2, 3)
    assert positions(grid).centered.tolist() == [[-1, -1], [0, -1], [1, -1], [-1, 1], [0, 1], [1, 1]]
    assert edge_maps(positions(Grid(3, 4))).unflatten(0, (3, 4)).sum(2).tolist() == [
        [2, 1, 1, 2],
        [1, 0, 0, 1],
        [2, 1, 1, 2],
    ]
    assert edge_maps(positions(grid)).T.tolist() == [
        [1, 0, 0, 1, 0, 0],
        [0, 0, 1, 0, 0, 1],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 1, 1],
    ]


def test_a_side_of_one_patch_is_its_middle():
    assert positions(Grid(1, 3)).centered.tolist() == [[-1, 0], [0, 0], [1, 0]]


def test_widths_and_lengths_never_pass_through_zero():
    part = module(Gabor(), Grid(3, 5)).gabor
    with torch.no_grad():
        part.log_sigma.fill_(-300.0)
        part.log_wavelength.fill_(-300.0)
    code = part.code()
    code.sum().backward()
    assert code.isfinite().all()


def test_start():
    made = build(Gabor(), Widths(512, 2, 256), Grid(3, 5, prefix=1), 1)
    init_weights(made, 0)
    sigma, wavelength = made.gabor.log_sigma.exp(), made.gabor.log_wavelength.exp()
    assert 0.3 <= sigma.min() < 0.31
    assert 1.45 < sigma.max() <= 1.5
    assert 0.5 <= wavelength.min() < 0.51
    assert 3.9 < wavelength.max() <= 4.0
    assert 3.1 < made.gabor.phase.abs().max() <= math.pi
    for name in ("weight", "edges", "offset", "prefix"):
        assert abs(made.gabor.get_parameter(name).std() / 0.02 - 1) < 0.1


BASE = (Widths(768, 12, 64), Grid(14, 14, prefix=1), 12)
TINY = (Widths(192, 3, 64), Grid(14, 14, prefix=1), 12)


def edge_in_value(blocks=None):
    return Gabor(form="edge", injection=Add(places=("value",), shared=False, blocks=blocks))


def in_query_and_key(form="gabor+edge", **knobs):
    return Gabor(form=form, injection=Add(places=("query", "key"), shared=False, **knobs))


@pytest.mark.parametrize(("shape", "encoding", "count"), [
    (BASE, Gabor(), 10_752),
    (BASE, Gabor(form="gabor"), 7_680),
    (BASE, Gabor(form="edge"), 4_608),
    (BASE, Learnable(), 151_296),
    (TINY, in_query_and_key(), 64_512),
    (TINY, edge_in_value(), 13_824),
    (TINY, Composed(parts=(in_query_and_key(), edge_in_value())), 78_336),
    (TINY, Composed(parts=(Gabor(injection=Parts(parts=(1, 4), shared=False)), edge_in_value())), 78_336),
    (TINY, Gabor(injection=Add(places=("query", "key", "value"), shared=False)), 96_768),
    (TINY, Learnable(injection=Add(places=("query", "key"), shared=False)), 907_776),
    *((TINY, Composed(parts=(in_query_and_key(blocks=n), edge_in_value(n))), n * 6_528) for n in (3, 5, 6, 9, 12)),
])  # fmt: skip
def test_published_counts(shape, encoding, count):
    """Gabor paper, tables 1, 3, 4 and 5."""
    assert sum(value.numel() for value in build(encoding, *shape).parameters()) == count


def test_values_get_edges_in_patches_and_a_vector_of_the_class_token():
    made = module(edge_in_value(), Grid(3, 2, prefix=1))
    code = made.gabor._modules["value_1"]
    assert {name for name, _ in code.named_parameters()} == {"edges", "offset", "prefix"}
    assert torch.equal(code.code()[0], code.prefix[0])
    assert torch.allclose(code.code()[1], code.offset + code.edges[:, [0, 2]].sum(1))
