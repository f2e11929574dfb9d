"""Resampled tables against a bicubic sum written out, and against timm."""

import math

import numpy as np
import pytest
import timm.layers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from timm.layers.pos_embed_rel import resize_rel_pos_bias_table_simple

from tests.anchors.pairs import doubles
from trainables.encodings import Learnable, Relative, RelativeBias, Widths, relative
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, coordinates
from trainables.encodings.relative_torch import line_index, offset_index
from trainables.encodings.resample_torch import resampled_line, resampled_offsets, resampled_table
from trainables.training.init import init_weights

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
    for place in range(new):
        at = (place + 0.5) * old / new - 0.5
        for tap in range(math.floor(at) - 1, math.floor(at) + 3):
            weights[place, min(max(tap, 0), old - 1)] += kernel(at - tap)
    return weights


def slow(maps: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Shapes: (R, C, D) to (rows, columns, D)."""
    down, across = line_weights(maps.shape[0], rows), line_weights(maps.shape[1], columns)
    return np.einsum("ir,jc,rcd->ijd", down, across, maps)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_table_is_the_bicubic_sum(old, new):
    table = random(old.prefix + old.patches, 4)
    made = resampled_table(table, old, new)
    expected = slow(table[old.prefix :].reshape(old.rows, old.columns, 4).numpy(), new.rows, new.columns)
    assert torch.equal(made[: old.prefix], table[: old.prefix])
    np.testing.assert_allclose(made[old.prefix :], expected.reshape(-1, 4), atol=1e-12)


@settings(max_examples=15)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 9), st.integers(1, 9))
def test_offsets_are_the_bicubic_sum_with_zero_where_it_was(rows, columns, more_rows, more_columns):
    old, new = Grid(rows, columns), Grid(more_rows, more_columns)
    table = random(2, 3, (2 * rows - 1) * (2 * columns - 1))
    made = resampled_offsets(table, old, new)
    maps = table.reshape(6, 2 * rows - 1, 2 * columns - 1).permute(1, 2, 0).numpy()
    expected = slow(maps, 2 * more_rows - 1, 2 * more_columns - 1).transpose(2, 0, 1)
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
