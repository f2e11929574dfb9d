"""Shapes of channels: fits of known waves and edges, the residual against a loop, and the rule of each kind."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from trainables import probes
from trainables.encodings import Gabor, Widths
from trainables.encodings.build_torch import build
from trainables.probes import Grid

GRID = Grid(6, 9)
NAMES = ("sigma", "wavelength", "phase", "weight")
X, Y = (np.arange(54) % 9).astype(float), (np.arange(54) // 9).astype(float)
LINE_X, LINE_Y = X / 4 - 1, Y / 2.5 - 1


def wave(line: np.ndarray, sigma: float, wavelength: float, phase: float) -> np.ndarray:
    return np.exp(-(line**2) / (2 * sigma**2)) * np.cos(2 * math.pi * line / wavelength + phase)


def kind(channel: np.ndarray, grid: Grid = GRID) -> str:
    (found,) = probes.channel_shapes(channel[:, None], grid).kinds
    return str(found)


def test_each_kind_has_its_rule() -> None:
    across, down = wave(LINE_X, 0.8, 1.3, 0.4), wave(LINE_Y, 0.7, 1.1, 1.0)
    border = ((X == 0) | (X == 8) | (Y == 0) | (Y == 5)).astype(float)
    noise = np.random.default_rng(0).normal(size=54)
    assert kind(across) == "striped"
    assert kind(down * 3 + 0.1 * across) == "striped"
    assert kind(across + down) == "raster"
    assert kind(border) == "box"
    assert kind(noise) == "chaos"
    assert kind(across + 0.2 * noise) == "striped"
    assert kind(np.full(54, 3.3)) == "chaos", "a channel that is the same everywhere shows nothing"
    assert kind(X * 0 + (X + Y) % 2) == "chaos", "a chessboard is no sum of stripes"


@pytest.mark.parametrize("grid", [Grid(6, 9), Grid(8, 8), Grid(14, 14)], ids=str)
def test_a_channel_that_a_form_fits_exactly_ends_no_probe(grid) -> None:
    """What is left of rounding has no slope: scipy divided by zero, on some processors only."""
    column, row = np.meshgrid(np.arange(grid.columns), np.arange(grid.rows))
    edges = [column == 0, row == grid.rows - 1, (column == 0) | (column == grid.columns - 1)]
    flat = np.random.default_rng(0).normal(size=40)[:, None] * np.ones(grid.patches)
    boxes = np.stack([edge.ravel().astype(float) for edge in edges])
    found = probes.channel_shapes(np.concatenate([flat, boxes, 1 / 3 + boxes / 7]).T, grid)
    assert [*found.kinds] == 40 * ["chaos"] + 6 * ["box"]


@pytest.mark.parametrize("grid", [Grid(6, 9), Grid(5, 5, prefix=1)], ids=str)
def test_the_residual_is_that_of_a_loop_over_the_fitted_waves(grid) -> None:
    made = np.random.default_rng(1).normal(size=(grid.patches, 4))
    found = probes.channel_shapes(made, grid)
    for channel in range(4):
        fit = np.zeros((grid.rows, grid.columns))
        for row in range(grid.rows):
            for column in range(grid.columns):
                at = (2 * column / (grid.columns - 1) - 1, 2 * row / (grid.rows - 1) - 1)
                for side in (0, 1):
                    sigma, wavelength, phase, weight = (
                        float(getattr(found, name)[channel, side])
                        for name in ("sigma", "wavelength", "phase", "weight")
                    )
                    fit[row, column] += weight * float(wave(np.array(at[side]), sigma, wavelength, phase))
        true = made[:, channel].reshape(grid.rows, grid.columns)
        fit = fit - fit.mean() + true.mean()  # the bias of least squares
        total = sum((value - true.mean()) ** 2 for value in true.ravel())
        wrong = sum((a - b) ** 2 for a, b in zip(true.ravel(), fit.ravel(), strict=True))
        assert found.unexplained["gabor"][channel] == pytest.approx(wrong / total, abs=1e-10)


def test_edges_are_ordinary_least_squares() -> None:
    made = np.random.default_rng(2).normal(size=(54, 3))
    found = probes.channel_shapes(made, GRID).unexplained["edge"]
    design = np.stack([np.ones(54), X == 0, X == 8, Y == 0, Y == 5], axis=1).astype(float)
    wrong = made - design @ np.linalg.lstsq(design, made, rcond=None)[0]
    np.testing.assert_allclose(
        found, (wrong**2).sum(axis=0) / ((made - made.mean(axis=0)) ** 2).sum(axis=0), atol=1e-10
    )


def test_codes_of_the_gabor_encoding_are_found_again() -> None:
    torch.manual_seed(0)
    codes = {}
    for form in ("gabor", "edge", "gabor+edge"):
        spec = Gabor(form=form)
        encoding = build(spec, Widths(8, 2, 4), GRID, 1).double()
        (part,) = (encoding.part(name) for name in encoding.parts)
        for name, value in part.named_parameters():
            part.init_parameter(name, value.data, torch.Generator().manual_seed(len(name)))
        codes[form] = part.code().detach()
    left = {form: probes.channel_shapes(made, GRID).unexplained for form, made in codes.items()}
    assert left["gabor"]["gabor"].max() < 1e-4
    assert left["edge"]["edge"].max() < 1e-20
    assert left["gabor+edge"]["gabor+edge"].max() < 1e-3
    assert left["gabor+edge"]["gabor"].mean() > 0.02
    for found in left.values():
        assert (found["gabor+edge"] <= np.minimum(found["gabor"], found["edge"]) + 1e-15).all()


def test_a_side_of_one_patch_has_no_waves() -> None:
    found = probes.channel_shapes(np.arange(5.0)[:, None], Grid(1, 5))
    assert np.isfinite(found.unexplained["gabor"]).all()
    assert [*found.kinds] == ["striped"]
    assert found.weight[0, 1] == 0


@pytest.mark.parametrize("grid", [Grid(9, 14), Grid(14, 14)], ids=str)
def test_the_fit_recovers_the_parameters_of_generated_channels(grid) -> None:
    """Where one wave along each side fits exactly, it is the wave that the channel was made of.

    A longer wave shows too little on the grid to be told from others. A wave of two patches, 0.5 on 9 rows, has the
    same values at every patch for many pairs of phase and weight; a shorter one has those of a longer one.
    """
    stream = np.random.default_rng(3)
    count = 12
    known = {
        "sigma": stream.uniform(0.3, 0.8, (count, 2)),
        "wavelength": stream.uniform(0.7, 1.2, (count, 2)),
        "phase": stream.uniform(-3, 3, (count, 2)),
        "weight": stream.uniform(0.5, 2, (count, 2)),
    }
    row, column = np.divmod(np.arange(grid.patches), grid.columns)
    lines = (2 * column / (grid.columns - 1) - 1, 2 * row / (grid.rows - 1) - 1)
    channels = [
        sum(
            known["weight"][d, side] * wave(lines[side], *(known[name][d, side] for name in NAMES[:3]))
            for side in (0, 1)
        )
        + stream.normal()
        for d in range(count)
    ]
    found = probes.channel_shapes(np.stack(channels, axis=1), grid)
    assert found.unexplained["gabor"].max() < 1e-8
    for name in ("sigma", "wavelength", "weight"):
        np.testing.assert_allclose(getattr(found, name), known[name], rtol=0.02)
    turned = np.angle(np.exp(1j * (found.phase - known["phase"])))
    np.testing.assert_allclose(turned, 0, atol=0.02)
