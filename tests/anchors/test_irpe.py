"""iRPE against loops over pairs written from the paper and its published code, forward and backward, in float64."""

import itertools
import math

import pytest
import torch

from tests.anchors.pairs import GRIDS, SCALE, content, fast, module, place, same, slow
from trainables.encodings import IRPE, Widths
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid
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
from trainables.spec import SpecError

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
