"""Codes against loops in float64: tables, sinusoids, Fourier features, Gabor waves and edges; and published counts."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import interpolate

from tests.anchors.pairs import doubles, module, same
from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import (  # fmt: skip
    IRPE,
    PEG,
    Add,
    Composed,
    Concat,
    Factorized,
    Fourier,
    Gabor,
    Learnable,
    LearnableSinusoidal,
    NoEncoding,
    Parts,
    RelativeBias,
    Shape,
    Sinusoidal,
    Widths,
)
from trainables.encodings.build_torch import build
from trainables.encodings.declared_torch import Positions
from trainables.encodings.encoding_torch import Grid, Tokens
from trainables.encodings.gabor import edge_maps
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


def test_a_patch_gets_the_sum_of_its_row_and_its_column():
    for grid in GRIDS:
        made, prefix, patches = added(Factorized(std=0.5), grid, 8)
        rows, columns = (made.factorized.get_parameter(name).detach().numpy() for name in ("rows", "columns"))
        assert rows.shape == (grid.rows, 8)
        assert columns.shape == (grid.columns, 8)
        expected = [rows[token // grid.columns] + columns[token % grid.columns] for token in range(grid.patches)]
        assert np.array_equal(patches, np.array(expected))
        assert not prefix.any()
        made.factorized.code().square().sum().backward()
        code = torch.as_tensor(patches).unflatten(0, (grid.rows, grid.columns))
        torch.testing.assert_close(made.factorized.get_parameter("rows").grad, 2 * code.sum(1))
        torch.testing.assert_close(made.factorized.get_parameter("columns").grad, 2 * code.sum(0))


def test_its_tables_are_counted_and_begin_as_a_free_table():
    spec, shape = Factorized(), Shape(Widths(512, 2, 256), 2, 30, 20, 1)
    made = build(spec, shape.widths, Grid.of(shape), 2)
    init_weights(made, 0)
    assert spec.parameters(shape) == sum(value.numel() for value in made.parameters()) == 50 * 512
    assert all(abs(value.std().item() / 0.02 - 1) < 0.05 for value in made.parameters())
    assert Factorized(injection=Concat()).parameters(shape) == 50 * 256


def test_each_table_is_resampled_along_its_own_side():
    """As many columns as before: their table stays as it is, to the bit; that of rows is torch's bicubic one."""
    old, new = Grid(3, 5, prefix=1), Grid(7, 5, prefix=1)
    part = added(Factorized(std=0.5), old, 8)[0].factorized
    tables = {name: value.detach() for name, value in part.named_parameters()}
    assert torch.equal(part.resampled("columns", tables["columns"], old, new), tables["columns"])
    made = part.resampled("rows", tables["rows"], old, new)
    expected = interpolate(tables["rows"].T[None, :, :, None], (7, 1), mode="bicubic", align_corners=False)
    torch.testing.assert_close(made, expected[0, :, :, 0].T)


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
DEIT_TI = (Widths(192, 3, 64), Grid(14, 14, prefix=1), 12)


def edge_in_value(blocks=None):
    return Gabor(form="edge", injection=Add(places=("value",), shared=False, blocks=blocks))


def in_query_and_key(form="gabor+edge", **knobs):
    return Gabor(form=form, injection=Add(places=("query", "key"), shared=False, **knobs))


@pytest.mark.parametrize(("shape", "encoding", "count"), [
    (BASE, Gabor(), 10_752),
    (BASE, Gabor(form="gabor"), 7_680),
    (BASE, Gabor(form="edge"), 4_608),
    (BASE, Learnable(), 151_296),
    (DEIT_TI, in_query_and_key(), 64_512),
    (DEIT_TI, edge_in_value(), 13_824),
    (DEIT_TI, Composed(parts=(in_query_and_key(), edge_in_value())), 78_336),
    (DEIT_TI, Composed(parts=(Gabor(injection=Parts(parts=(1, 4), shared=False)), edge_in_value())), 78_336),
    (DEIT_TI, Gabor(injection=Add(places=("query", "key", "value"), shared=False)), 96_768),
    (DEIT_TI, Learnable(injection=Add(places=("query", "key"), shared=False)), 907_776),
    *((DEIT_TI, Composed(parts=(in_query_and_key(blocks=n), edge_in_value(n))), n * 6_528) for n in (3, 5, 6, 9, 12)),
])  # fmt: skip
def test_published_counts_of_gabor(shape, encoding, count):
    """Gabor paper, tables 1, 3, 4 and 5."""
    assert sum(value.numel() for value in build(encoding, *shape).parameters()) == count


def test_values_get_edges_in_patches_and_a_vector_of_the_class_token():
    made = module(edge_in_value(), Grid(3, 2, prefix=1))
    code = made.gabor._modules["value_1"]
    assert {name for name, _ in code.named_parameters()} == {"edges", "offset", "prefix"}
    assert torch.equal(code.code()[0], code.prefix[0])
    assert torch.allclose(code.code()[1], code.offset + code.edges[:, [0, 2]].sum(1))


TINY = (Widths(192, 3, 64), Grid(14, 14, prefix=1), 12)
"""DeiT-Ti at 224 pixels."""


@pytest.mark.parametrize(("encoding", "count"), [
    (Learnable(), 37_824),
    (Sinusoidal(), 0),
    (LearnableSinusoidal(), 192),
    (PEG(), 1_728 + 192),
    (PEG(kernel=27), 192 * 27**2 + 192),
    (PEG(form="dense"), 192 * (192 * 9 + 1)),
    (PEG(form="separable"), 38_592 + 2 * 192),
    (PEG(form="dense", kernel=1, places=tuple(range(-1, 11))), 444_672),
    (PEG(form="depthwise_stack"), 4 * 192 * (9 + 2)),
    (PEG(form="dense_stack"), 4 * 192 * (192 * 9 + 2)),
    (Composed(parts=(Learnable(), PEG(places=(0,)))), 37_824 + 1_920),
    (Composed(parts=(Learnable(), PEG(places=(0, 1, 2, 3)))), 37_824 + 4 * 1_920),
    (Learnable(injection=Add(blocks=6)), 37_824),
    (Composed(parts=(Learnable(), IRPE())), 37_824 + 12 * 64 * 50),
    (Composed(parts=(Learnable(), IRPE(on=("q", "k", "v")))), 37_824 + 3 * 12 * 64 * 50),
    (PEG(places=tuple(range(5))), 5 * 1_920),
    (RelativeBias(shared=True), 2_187),
    (RelativeBias(), 12 * 2_187),
    (Composed(parts=(Learnable(), RelativeBias(shared=True))), 40_011),
    (Fourier(), 192 + (192 * 32 + 32) + (32 * 192 + 192)),
])  # fmt: skip
def test_published_counts(encoding, count):
    """CPVT tables 5, 8, 12, 16."""
    assert sum(value.numel() for value in build(encoding, *TINY).parameters()) == count


def test_peg_weights_and_biases():
    counts = {name: value.numel() for name, value in build(PEG(), *TINY).named_parameters()}
    assert counts == {"peg.conv.-1.weight": 1_728, "peg.conv.-1.bias": 192}


@pytest.mark.parametrize("encoding", [RelativeBias(), PEG()])
def test_one_block_and_the_class_token_hear_of_order_only_through_the_tokens(encoding):
    """A bias between patches tells the class token nothing of the order; a PEG before the block does."""
    model = PositionedViT(ViT(embed_dim=16, depth=1, num_heads=2), (3, 12, 20), 3, encoding).double()
    init_weights(model, 0)
    for value in model.encoding.parameters():
        torch.nn.init.normal_(value)
    images = torch.randn(4, 3, 12, 20, dtype=torch.float64)
    mirrored = images.flip(3).unflatten(3, (5, 4)).flip(4).flatten(3)
    apart = (model(images) - model(mirrored)).abs().max()
    assert apart < 1e-12 if encoding.kind == "relative_bias" else apart > 1e-8


@pytest.mark.parametrize(("encoding", "count"), [
    (Learnable(), 5_717_416),
    (PEG(places=(0,)), 5_717_416 - 35_904),
    (NoEncoding(), 5_679_592),
])  # fmt: skip
def test_models_of_cpvt(encoding, count):
    """DeiT-Ti with a table, CPVT-Ti, and DeiT-Ti without position (CPVT tables 8 and 16)."""
    with torch.device("meta"):
        model = PositionedViT(ViT(embed_dim=192, depth=12, num_heads=3, patch_size=16), (3, 224, 224), 1000, encoding)
    assert sum(value.numel() for value in model.parameters()) == count
