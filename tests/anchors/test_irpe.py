"""iRPE's numbers of pairs against a loop; resampled tables against sums; the formulas that are public."""

import itertools
import math

import numpy as np
import pytest
import timm.layers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from timm.layers.pos_embed_rel import resize_rel_pos_bias_table_simple

from tests.anchors.pairs import GRIDS, SCALE, content, doubles, fast, module, place, same, slow
from trainables.encodings import IRPE, Fourier, Learnable, Relative, RelativeBias, Widths, irpe, relative
from trainables.encodings.build_torch import build
from trainables.encodings.declared_torch import Positions
from trainables.encodings.encoding_torch import Grid, coordinates
from trainables.encodings.gabor import edge_maps, gabor_waves
from trainables.encodings.irpe import (  # fmt: skip
    Clip,
    ClipRatio,
    Cross,
    Euclidean,
    Piecewise,
    PiecewiseRatio,
    Product,
    Quantization,
    buckets,
)
from trainables.encodings.irpe_torch import bucket_ids, piecewise_index
from trainables.encodings.relative_torch import clipped_index, line_index, offset_index
from trainables.encodings.resample_torch import resampled_line, resampled_offsets, resampled_table
from trainables.encodings.sinusoidal import frequencies, waves
from trainables.spec import SpecError
from trainables.training.init import init_weights
from trainables.weights.transfer import resized

MAPPINGS = [Euclidean(), Quantization(), Quantization(of="rank"), Cross(), Product()]
INDICES = [Piecewise(alpha=0.7, beta=2.9, gamma=3.1), PiecewiseRatio(), Clip(beta=1.7), ClipRatio(ratio=1.1)]


def slow_number(x, index):
    """g(x), with whole numbers x, from the published code: round, cap at the fractional beta, then cut."""
    beta = index.beta
    if isinstance(index, Clip | ClipRatio):
        return max(-int(beta), min(int(beta), x))
    if abs(x) <= index.alpha:
        return round(x)
    far = round(
        index.alpha + math.log(abs(x) / index.alpha) / math.log(index.gamma / index.alpha) * (beta - index.alpha)
    )
    return int(math.copysign(int(min(far, beta)), x))


def slow_buckets(mapping, index, grid, i, j):
    """The buckets of the pair (query i, key j): one a table."""
    reach = int(index.beta)
    at, to = place(i, grid), place(j, grid)
    if at is None or to is None:
        extra = (2 * reach + 1) ** 2 if isinstance(mapping, Product) else 2 * reach + 1
        return [extra] * (2 if isinstance(mapping, Cross) else 1)
    dr, dc = at[0] - to[0], at[1] - to[1]
    match mapping:
        case Euclidean():
            return [slow_number(round(math.hypot(dr, dc)), index) + reach]
        case Quantization(of="squared"):
            return [slow_number(dr**2 + dc**2, index) + reach]
        case Quantization():
            squares = {(a - b) ** 2 + (c - d) ** 2 for a, b in rows(grid.rows) for c, d in rows(grid.columns)}
            return [slow_number(sorted(squares).index(dr**2 + dc**2), index) + reach]
        case Cross():
            return [slow_number(dr, index) + reach, slow_number(dc, index) + reach]
        case Product():
            return [(slow_number(dr, index) + reach) * (2 * reach + 1) + slow_number(dc, index) + reach]


def rows(length):
    return itertools.product(range(length), repeat=2)


@pytest.mark.parametrize("mapping", MAPPINGS, ids=str)
@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("grid", [Grid(4, 7, prefix=1), Grid(7, 3), Grid(1, 5, prefix=2)])
def test_buckets(mapping, index, grid):
    ids = bucket_ids(mapping, index, grid)
    count = grid.prefix + grid.patches
    expected = [[slow_buckets(mapping, index, grid, i, j) for j in range(count)] for i in range(count)]
    assert torch.equal(ids, torch.tensor(expected).permute(2, 0, 1))
    assert ids.min() >= 0
    assert ids.max() < buckets(mapping, index, grid.prefix)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("mapping", MAPPINGS, ids=str)
@pytest.mark.parametrize("mode", ["contextual", "bias"])
@pytest.mark.parametrize("shared_heads", [True, False])
def test_attention(grid, mapping, mode, shared_heads):
    index = PiecewiseRatio(ratio=0.9)
    on = ("q", "k", "v") if mode == "contextual" else ("q", "k")
    made = module(IRPE(mapping=mapping, index=index, mode=mode, on=on, shared_heads=shared_heads), grid)
    tables = dict(made.irpe.tables)
    block = 1

    def entry(on, h, i, j):
        """The entries of the pair (i, j) in the tables of a place, summed."""
        some = slow_buckets(mapping, index, grid, i, j)
        head = 0 if shared_heads else h
        if on == "v":
            return sum(tables["v"][block, m, head, bucket] for m, bucket in enumerate(some))
        return sum(tables[on][block, m, head, ..., bucket] for m, bucket in enumerate(some))

    def logit(b, h, i, j):
        total = SCALE * q[b, h, i] @ k[b, h, j]
        if mode == "bias":
            return total + entry("k", h, i, j) + entry("q", h, j, i)
        return total + SCALE * q[b, h, i] @ entry("k", h, i, j) + SCALE * k[b, h, j] @ entry("q", h, j, i)

    def value(b, h, i, j):
        return v[b, h, j] + (entry("v", h, i, j) if "v" in on else 0)

    q, k, v = qkv = content(grid)
    same(made, fast(made, qkv, grid, block), slow(qkv, logit, value), qkv)


@pytest.mark.parametrize(("mapping", "ratio", "used", "allocated"), [
    (Euclidean(), 20, 20, 82), (Quantization(), 33, 51, 134), (Cross(), 20, 56, 164), (Product(), 1.9, 50, 50)
], ids=["euclidean", "quantization", "cross", "product"])  # fmt: skip
def test_the_published_variants(mapping, ratio, used, allocated):
    """Buckets in use on 14 x 14 patches with a class token, and rows of the published tables."""
    index = PiecewiseRatio(ratio=ratio)
    ids = bucket_ids(mapping, index, Grid(14, 14, prefix=1))
    assert sum(len(some.unique()) for some in ids) == used
    assert len(ids) * buckets(mapping, index, 1) == allocated


@pytest.mark.parametrize(("mode", "on", "shape"), [
    ("bias", "k", (12, 1, 1, 50)), ("contextual", "q", (12, 1, 1, 64, 50)), ("contextual", "v", (12, 1, 1, 50, 64))
])  # fmt: skip
def test_shapes_of_the_published_tables(mode, on, shape):
    made = build(IRPE(mode=mode, on=(on,)), Widths(192, 3, 64), Grid(14, 14, prefix=1), 12)
    assert made.irpe.tables[on].shape == shape
    own = build(IRPE(mode=mode, on=(on,), shared_heads=False), Widths(192, 3, 64), Grid(14, 14, prefix=1), 12)
    assert own.irpe.tables[on].shape == (12, 1, 3, *shape[3:])


def test_numbers_of_the_published_ratio():
    """alpha, beta, gamma = 1.9, 3.8, 15.2: at 11 the logarithm rounds to 4, is capped at 3.8 and cut to 3."""
    offsets = torch.tensor([0, 1, -1, 2, 3, -3, 4, 5, 11, -13])
    assert piecewise_index(offsets, 1.9, 3.8, 15.2).tolist() == [0, 1, -1, 2, 2, -2, 3, 3, 3, -3]


@pytest.mark.parametrize(("beta", "number"), [(4.0, 2), (6.0, 4), (2.0, 2)])
def test_halves_round_to_even(beta, number):
    """g(2) is 1 + (beta - 1) / 2 at alpha 1, gamma 4: 2.5, 3.5, 1.5."""
    assert piecewise_index(torch.tensor([2]), 1.0, beta, 4.0).tolist() == [number]


@pytest.mark.parametrize(("mapping", "ratio"), [(Euclidean(), 20), (Cross(), 20), (Product(), 12.1)], ids=str)
def test_wide_ratios_keep_every_offset(mapping, ratio):
    grid = Grid(14, 14)
    wide, plain = (bucket_ids(mapping, index, grid) for index in (PiecewiseRatio(ratio=ratio), Clip(beta=400.0)))
    assert len(wide.unique()) == len(plain.unique())


def test_ranks_hang_on_the_grid_and_squares_do_not():
    index = Clip(beta=40.0)
    small, large = Grid(7, 7), Grid(14, 14)

    def near(mapping, grid):
        return (
            bucket_ids(mapping, index, grid)[0]
            .unflatten(0, (grid.rows, -1))[0]
            .unflatten(1, (grid.rows, -1))[0, :7, :7]
        )

    assert torch.equal(near(Quantization(), small), near(Quantization(), large))
    assert not torch.equal(near(Quantization(of="rank"), small), near(Quantization(of="rank"), large))


@pytest.mark.parametrize("mapping", MAPPINGS, ids=str)
def test_reflection_and_rotation_are_seen_by_directed_mappings_alone(mapping):
    grid = Grid(4, 4)
    ids = bucket_ids(mapping, Piecewise(), grid)
    tokens = torch.arange(16).unflatten(0, (4, 4))
    for moved in (tokens.flip(0), tokens.flip(1), tokens.rot90()):
        order = moved.flatten()
        assert torch.equal(ids[:, order][:, :, order], ids) == isinstance(mapping, Euclidean | Quantization)


def test_tables_of_two_directions_are_two():
    made = module(IRPE(mapping=Cross()), GRIDS[1])
    assert made.irpe.tables["k"].shape == (2, 2, 1, 4, 8)
    assert not torch.equal(made.irpe.ids[0], made.irpe.ids[1])


def test_one_grid_leaves_another_alone():
    """Nothing is kept between grids: a second shape of the same area, then prefix tokens, have buckets of their own."""
    wide, high, led = (bucket_ids(Product(), Piecewise(), grid) for grid in (Grid(3, 4), Grid(4, 3), Grid(3, 4, 1)))
    assert not torch.equal(wide, high)
    assert torch.equal(led[:, 1:, 1:], wide)
    assert (led[0, 0] == 49).all()
    assert (led[0, :, 0] == 49).all()


@pytest.mark.parametrize(
    "spec", [IRPE(on=("q", "k", "v")), IRPE(mode="bias", on=("q", "k"))], ids=["contextual", "bias"]
)
def test_tables_begin_at_nothing(spec):
    grid = GRIDS[1]
    made = module(spec, grid)
    for value in made.parameters():
        value.data.zero_()
    qkv = content(grid)
    plain = fast(build(IRPE(on=()), Widths(8, 2, 4), grid, 2), qkv, grid, 1)
    assert torch.equal(fast(made, qkv, grid, 1), plain)


@pytest.mark.parametrize(("values", "complaint"), [
    ({"mode": "bias", "on": ["v"]}, r"on must be of q and k where mode is bias"),
    ({"on": ["q", "q"]}, r"on must be without doubles"),
    ({"index": {"kind": "piecewise", "alpha": 4.0, "beta": 3.0, "gamma": 9.0}}, r"index\.beta must be more than alpha"),
    ({"index": {"kind": "piecewise", "alpha": 1.0, "beta": 3.0, "gamma": 2.0}}, r"index\.gamma must be more than beta"),
    ({"mapping": {"kind": "polar"}}, r"mapping\.kind must be one of euclidean, quantization, cross, product"),
])  # fmt: skip
def test_mistakes(values, complaint):
    with pytest.raises(SpecError, match=complaint):
        IRPE.read(values)


PAIRS = [
    (Grid(3, 5), Grid(5, 3)),
    (Grid(4, 2, prefix=1), Grid(9, 3, prefix=1)),
    (Grid(7, 9, prefix=2), Grid(2, 4, prefix=2)),
    (Grid(1, 6), Grid(2, 13)),
]


def kernel(distance: float) -> float:
    """Cubic convolution with a = -0.75. Keys 1981."""
    a, x = -0.75, abs(distance)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def line_weights(old: int, new: int) -> np.ndarray:
    """What each of `new` places takes of `old` ones: pixel centres aligned, not corners; the border repeated."""
    weights = np.zeros((new, old))
    for number in range(new):
        at = (number + 0.5) * old / new - 0.5
        for tap in range(math.floor(at) - 1, math.floor(at) + 3):
            weights[number, min(max(tap, 0), old - 1)] += kernel(at - tap)
    return weights


def slow_sum(maps: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Shapes: (R, C, D) to (rows, columns, D)."""
    down, across = line_weights(maps.shape[0], rows), line_weights(maps.shape[1], columns)
    return np.einsum("ir,jc,rcd->ijd", down, across, maps)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_table_is_the_bicubic_sum(old, new):
    table = random(old.prefix + old.patches, 4)
    made = resampled_table(table, old, new)
    expected = slow_sum(table[old.prefix :].reshape(old.rows, old.columns, 4).numpy(), new.rows, new.columns)
    assert torch.equal(made[: old.prefix], table[: old.prefix])
    np.testing.assert_allclose(made[old.prefix :], expected.reshape(-1, 4), atol=1e-12)


@settings(max_examples=15)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 9), st.integers(1, 9))
def test_offsets_are_the_bicubic_sum_with_zero_where_it_was(rows, columns, more_rows, more_columns):
    old, new = Grid(rows, columns), Grid(more_rows, more_columns)
    table = random(2, 3, (2 * rows - 1) * (2 * columns - 1))
    made = resampled_offsets(table, old, new)
    maps = table.reshape(6, 2 * rows - 1, 2 * columns - 1).permute(1, 2, 0).numpy()
    expected = slow_sum(maps, 2 * more_rows - 1, 2 * more_columns - 1).transpose(2, 0, 1)
    np.testing.assert_allclose(made, expected.reshape(2, 3, -1), atol=1e-12)
    zeros = (int(offset_index(grid)[0, 0]) for grid in (old, new))
    before, after = (tensor[..., zero] for tensor, zero in zip((table, made), zeros, strict=True))
    assert torch.allclose(before, after, rtol=0, atol=1e-12)


@settings(max_examples=15)
@given(st.integers(1, 8), st.integers(1, 12))
def test_a_line_is_the_cubic_sum_with_zero_where_it_was(old, new):
    table = random(3, 2 * old - 1, 4)
    made = resampled_line(table, new)
    expected = np.einsum("ir,trd->tid", line_weights(2 * old - 1, 2 * new - 1), table.numpy())
    np.testing.assert_allclose(made, expected, atol=1e-12)
    before, after = int(line_index(old)[0, 0]), int(line_index(new)[0, 0])
    assert torch.allclose(table[:, before], made[:, after], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_table_is_timms_without_antialias(old, new):
    table = random(old.prefix + old.patches, 4).float()
    sides = [new.rows, new.columns], [old.rows, old.columns]
    theirs = timm.layers.resample_abs_pos_embed(table[None], *sides, old.prefix, antialias=False)[0]
    made = resampled_table(table, old, new)
    assert made.dtype == torch.float32
    assert torch.allclose(made, theirs, atol=1e-6)
    other = timm.layers.resample_abs_pos_embed(table[None], *sides, old.prefix, antialias=True)[0]
    assert not torch.allclose(made, other, atol=1e-2)


@pytest.mark.parametrize(("old", "new"), [(Grid(3, 3), Grid(5, 5)), (Grid(4, 4), Grid(6, 2)), (Grid(5, 5), Grid(2, 4))])
def test_offsets_are_timms(old, new):
    table = random(3, (2 * old.rows - 1) ** 2).float()
    offsets = (2 * new.rows - 1) * (2 * new.columns - 1)
    theirs = resize_rel_pos_bias_table_simple(table.T.contiguous(), (new.rows, new.columns), (offsets, 3))
    assert torch.allclose(resampled_offsets(table, old, new), theirs.T, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_same_grid_gives_the_same_numbers(dtype):
    grid = Grid(3, 5, prefix=1)
    table, offsets, line = random(16, 4).to(dtype), random(2, 45).to(dtype), random(2, 9, 3).to(dtype)
    assert torch.equal(resampled_table(table, grid, grid), table)
    assert torch.equal(resampled_offsets(offsets, grid, grid), offsets)
    assert torch.equal(resampled_line(line, 5), line)
    assert resampled_table(table, grid, Grid(4, 4, prefix=1)).dtype == dtype


def test_rows_stay_rows():
    """A table that rises along the rows alone rises along the rows of any grid, and so with columns."""
    old, new = Grid(3, 6), Grid(7, 2)
    x, y = coordinates(old).double().unbind(1)
    made = resampled_table(torch.stack([y, x], dim=1), old, new).reshape(7, 2, 2)
    assert torch.allclose(made[:, :1, 0], made[:, :, 0], rtol=0, atol=1e-12)
    assert bool((made[:, 0, 0].diff() > 0).all())
    assert torch.allclose(made[:1, :, 1], made[:, :, 1], rtol=0, atol=1e-12)
    assert bool((made[0, :, 1].diff() > 0).all())


@pytest.mark.parametrize(("spec", "names"), [
    (Learnable(), {"table": "table"}),
    (RelativeBias(), {"table": "offsets"}),
    (RelativeBias(shared=True), {"table": "offsets"}),
    (Relative(value=True), {"keys.rows": 2, "values.columns": 7}),
    (Relative(offsets=relative.ClippedOffsets(reach=2)), {"keys.vectors": "same"}),
], ids=["table", "bias", "bias shared", "split", "clipped"])  # fmt: skip
def test_an_encodings_own_tables(spec, names):
    old, new = Grid(4, 3, prefix=1), Grid(2, 7, prefix=1)
    with doubles():
        made = build(spec, Widths(8, 2, 4), old, depth=2)
    init_weights(made, 0)
    (part,) = made.children()
    for name, how in names.items():
        value = torch.nn.init.normal_(part.get_parameter(name)).detach()
        expected = {
            "table": lambda value: resampled_table(value, old, new),
            "offsets": lambda value: resampled_offsets(value, old, new),
            "same": lambda value: value,
        }.get(how, lambda value, how=how: resampled_line(value, how))(value)
        assert torch.equal(part.resampled(name, value, old, new), expected)


GRID = Grid(rows=3, columns=5)
AT = Positions.of(GRID, Widths(dim=16, heads=2, head_dim=8))
FROM, TO = 1, 13
"""Two patches: (row 0, column 1) and (row 2, column 3)."""


def test_bucket_ids():
    ids = bucket_ids(irpe.Product(), irpe.PiecewiseRatio(ratio=1.9), Grid(14, 14, prefix=1))
    assert (int(ids.max()) + 1, int(ids[0, 1, 1])) == (50, 24)  # 7 x 7 buckets and one of the class token


def test_piecewise_index():
    assert piecewise_index(torch.tensor([-20, -3, 0, 1, 4]), 1.9, 3.8, 15.2).tolist() == [-3, -2, 0, 1, 3]


def test_sinusoidal_table():
    code = waves(AT, AT.tensor(frequencies(16)))[TO]
    assert float(code[2]) == pytest.approx(math.sin(3 / 10), rel=1e-14)  # x, whose second frequency is 1 / 10
    assert float(code[8 + 3]) == pytest.approx(math.cos(2 / 10), rel=1e-14)  # y


def test_fourier_features():
    features = Fourier().fourier_features(AT, AT.tensor([[0.5, 0.25]]))[TO]
    assert torch.allclose(features, torch.tensor([math.cos(2.0), math.sin(2.0)]).double() / math.sqrt(2), atol=1e-15)


def test_gabor_waves():
    sigma, wavelength, phase = (torch.full((1, 2), value, dtype=torch.float64) for value in (0.5, 2.0, 0.1))
    wave = gabor_waves(AT.centered, sigma, wavelength, phase)[TO, 0, 0]  # column 3 of 5 lies at 0.5
    assert float(wave) == pytest.approx(-math.exp(-0.5) * math.sin(0.1), rel=1e-14)


def test_edge_maps():
    assert edge_maps(AT).sum(0).tolist() == [3, 3, 5, 5]
    assert edge_maps(AT)[FROM].tolist() == [0, 0, 1, 0]


def test_offset_index():
    assert int(offset_index(GRID)[FROM, TO]) == (-2 + 2) * 9 + (-2 + 4)


def test_clipped_index():
    assert int(clipped_index(GRID, reach=1)[FROM, TO]) == (1 + 1) * 3 + (1 + 1)


def test_line_index():
    assert line_index(3).tolist() == [[2, 3, 4], [1, 2, 3], [0, 1, 2]]


def test_resampled_table():
    """A place halfway between two: cubic convolution takes -0.09375, 0.59375, 0.59375, -0.09375 of its neighbours."""
    table = torch.tensor([[2.0, 1], [1, 0], [1, 1], [1, 0], [1, 0]])  # a class token, a row of four
    made = resampled_table(table, Grid(1, 4, prefix=1), Grid(1, 2, prefix=1))
    assert made.tolist() == [[2, 1], [1, 0.59375], [1, -0.09375]]


def test_resampled_offsets_and_lines():
    table = torch.arange(2 * 3 - 1).double()
    halves = resampled_offsets(table, Grid(1, 3), Grid(1, 2))
    assert torch.equal(halves, resampled_line(table[:, None], 2)[:, 0])
    assert float(halves[1]) == 2.0  # the offset 0


def test_resized():
    step = torch.tensor([0.0, 0, 1, 1]).double().expand(1, 1, 4, 4)
    assert resized(step, 8)[0, 0, 5].tolist() == pytest.approx([0, 0, 0, 0.203125, 0.796875, 1, 1, 1])
