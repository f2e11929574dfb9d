"""Token-level codes against loops written from the papers, in float64, on grids that are not square."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.anchors.pairs import doubles, same
from trainables.encodings import Fourier, Learnable, LearnableSinusoidal, Sinusoidal, Widths
from trainables.encodings.build_torch import build
from trainables.encodings.declared_torch import Positions
from trainables.encodings.encoding_torch import Grid, Tokens
from trainables.encodings.sinusoidal import frequencies, waves
from trainables.training.init import init_weights

GRIDS = [Grid(3, 5), Grid(6, 4, prefix=1), Grid(2, 7, prefix=2)]


def positions(grid, dim=8):
    return Positions.of(grid, Widths(dim, 2, dim // 2))


def added(spec, grid, dim, seed=0):
    """The module, and what it adds to zeros: (prefix rows, patch rows)."""
    with doubles():
        made = build(spec, Widths(dim, 2, dim // 2), grid, depth=2)
    init_weights(made, seed)
    zeros = torch.zeros(3, grid.prefix + grid.patches, dim, dtype=torch.float64)
    out = made.tokens(Tokens(zeros, grid), 0).x
    assert torch.equal(out[0], out[2])
    assert made.tokens(Tokens(zeros, grid), 1).x is zeros
    return made, out[0, : grid.prefix].detach().numpy(), out[0, grid.prefix :].detach().numpy()


def slow_sinusoid(grid, dim):
    table = np.zeros((grid.rows * grid.columns, dim))
    for token in range(len(table)):
        x, y = token % grid.columns, token // grid.columns
        for i in range(dim // 4):
            wave = 10000 ** (4 * i / dim)
            table[token, 2 * i], table[token, 2 * i + 1] = math.sin(x / wave), math.cos(x / wave)
            table[token, dim // 2 + 2 * i] = math.sin(y / wave)
            table[token, dim // 2 + 2 * i + 1] = math.cos(y / wave)
    return table


def gelu(value):
    return value * 0.5 * (1 + math.erf(value / math.sqrt(2)))


def slow_fourier(grid, part, unit):
    weight = part.frequencies.weight.detach().numpy()
    first, second = (part.mlp.get_submodule(name) for name in ("0", "2"))
    rows = []
    for token in range(grid.rows * grid.columns):
        x, y = token % grid.columns, token // grid.columns
        if unit:
            x, y = x / (grid.columns - 1), y / (grid.rows - 1)
        phases = [x * a + y * b for a, b in weight]
        features = [math.cos(p) for p in phases] + [math.sin(p) for p in phases]
        features = np.array(features) / math.sqrt(len(features))
        hidden = first.weight.detach().numpy() @ features + first.bias.detach().numpy()
        hidden = np.array([gelu(value) for value in hidden])
        rows.append(second.weight.detach().numpy() @ hidden + second.bias.detach().numpy())
    return np.stack(rows)


@settings(max_examples=15)
@given(rows=st.integers(1, 6), columns=st.integers(1, 9), quarter=st.integers(1, 6))
def test_sinusoidal_table(rows, columns, quarter):
    grid = Grid(rows, columns)
    at = positions(grid)
    table = waves(at, at.tensor(frequencies(4 * quarter)))
    np.testing.assert_allclose(table, slow_sinusoid(grid, 4 * quarter), atol=1e-12)


@pytest.mark.parametrize("grid", GRIDS)
def test_sinusoidal(grid):
    _, prefix, patches = added(Sinusoidal(), grid, 16)
    np.testing.assert_allclose(patches, slow_sinusoid(grid, 16), atol=1e-10)
    assert not prefix.any()


@pytest.mark.parametrize("grid", GRIDS)
def test_learnable_sinusoidal_begins_as_the_fixed_code(grid):
    made, prefix, patches = added(LearnableSinusoidal(), grid, 16)
    np.testing.assert_allclose(patches, slow_sinusoid(grid, 16), atol=1e-10)
    assert not prefix.any()
    expected = np.zeros((8, 2))
    for i in range(4):
        expected[i, 0] = expected[4 + i, 1] = 10000 ** (-4 * i / 16)
    np.testing.assert_allclose(made.learnable_sinusoidal.frequencies.detach(), expected, rtol=1e-10)


def test_learnable_sinusoidal_with_other_frequencies():
    grid = Grid(3, 5)
    made, *_ = added(LearnableSinusoidal(), grid, 8)
    weight = torch.randn(4, 2, dtype=torch.float64)
    made.learnable_sinusoidal.frequencies.data.copy_(weight)
    code = made.learnable_sinusoidal.code().detach()
    for token in range(15):
        for k in range(4):
            phase = (token % 5) * weight[k, 0] + (token // 5) * weight[k, 1]
            assert abs(code[token, 2 * k] - phase.sin()) < 1e-12
            assert abs(code[token, 2 * k + 1] - phase.cos()) < 1e-12


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("coordinates", ["raw", "unit"])
@pytest.mark.parametrize("features", [None, 6])
def test_fourier(grid, coordinates, features):
    made, prefix, patches = added(Fourier(features=features, coordinates=coordinates, hidden=5), grid, 16)
    assert made.fourier.frequencies.weight.shape == ((features or 16) // 2, 2)
    np.testing.assert_allclose(patches, slow_fourier(grid, made.fourier, coordinates == "unit"), atol=1e-10)
    assert not prefix.any()


@pytest.mark.parametrize("gamma", [0.7, 2.5, 6.0])
def test_the_kernel_of_fourier_features(gamma):
    """Expected inner product: 0.5 exp(-d^2 / (2 gamma^2)), not the exp(-d^2 / gamma^2) of the thesis' eq. 4."""
    grid = Grid(4, 7)
    made, *_ = added(Fourier(gamma=gamma, features=40_000), grid, 8)
    at = positions(grid)
    features = Fourier().fourier_features(at, made.fourier.frequencies.weight).detach()
    places = at.xy
    squares = (places[:, None] - places[None]).square().sum(2)
    assert torch.allclose(features @ features.T, 0.5 * torch.exp(-squares / (2 * gamma**2)), atol=0.02)


def test_unit_coordinates_of_a_single_column_are_zero():
    assert positions(Grid(3, 1)).unit.tolist() == [[0, 0], [0, 0.5], [0, 1]]


@pytest.mark.parametrize("grid", GRIDS)
def test_learnable_gives_every_token_a_row(grid):
    made, prefix, patches = added(Learnable(), grid, 12)
    assert np.array_equal(np.concatenate([prefix, patches]), made.learnable.table.detach().numpy())
    assert prefix.all()


@pytest.mark.parametrize("grid", GRIDS)
def test_gradients_of_frequencies(grid):
    made, *_ = added(LearnableSinusoidal(), grid, 8)
    weight = made.learnable_sinusoidal.frequencies
    weight.data.normal_()
    rows = [torch.zeros(8, dtype=torch.float64)] * grid.prefix
    for token in range(grid.patches):
        phases = [(token % grid.columns) * weight[k, 0] + (token // grid.columns) * weight[k, 1] for k in range(4)]
        rows.append(torch.stack([wave for phase in phases for wave in (phase.sin(), phase.cos())]))
    same(made, made.learnable_sinusoidal.code(), torch.stack(rows), [])


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("coordinates", ["raw", "unit"])
def test_gradients_of_features(grid, coordinates):
    made, *_ = added(Fourier(features=6, coordinates=coordinates, hidden=5), grid, 8)
    frequencies, (first, second) = (
        made.fourier.frequencies.weight,
        [made.fourier.mlp.get_submodule(name) for name in ("0", "2")],
    )
    rows = [torch.zeros(8, dtype=torch.float64)] * grid.prefix
    for token in range(grid.patches):
        x, y = token % grid.columns, token // grid.columns
        if coordinates == "unit":
            x, y = x / (grid.columns - 1), y / (grid.rows - 1)
        phases = [x * some[0] + y * some[1] for some in frequencies]
        features = torch.stack([p.cos() for p in phases] + [p.sin() for p in phases]) / math.sqrt(6)
        hidden = torch.stack([row @ features + bias for row, bias in zip(first.weight, first.bias, strict=True)])
        hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
        rows.append(torch.stack([row @ hidden + bias for row, bias in zip(second.weight, second.bias, strict=True)]))
    same(made, made.fourier.code(), torch.stack(rows), [])
