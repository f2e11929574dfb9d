"""What encodings are made of, each by one public function, in a few lines against an independent number."""

import math

import pytest
import torch

from trainables.encodings import Fourier, Widths, irpe
from trainables.encodings.declared_torch import Positions
from trainables.encodings.encoding_torch import Grid
from trainables.encodings.gabor import edge_maps, gabor_waves
from trainables.encodings.irpe_torch import bucket_ids, piecewise_index
from trainables.encodings.relative_torch import clipped_index, line_index, offset_index
from trainables.encodings.resample_torch import resampled_line, resampled_offsets, resampled_table
from trainables.encodings.sinusoidal import frequencies, waves
from trainables.weights.transfer import resized

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
