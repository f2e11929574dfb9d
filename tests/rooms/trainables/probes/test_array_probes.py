"""Probes of arrays and shapes of channels against loops in float64, and each pitfall of such probes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.rooms.trainables.probes import by_loop
from trainables import probes
from trainables.encodings import Gabor, Widths
from trainables.encodings.build_torch import build
from trainables.probes import Grid, ProbeError
from trainables.probes.inputs.folds import MOST_PAIRS, split
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.training.init import init_weights

GRIDS = [Grid(3, 5), Grid(3, 5, prefix=1), Grid(4, 2, prefix=2)]


def codes(grid: Grid, dim: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(grid.patches, dim))


def weights(grid: Grid, seed: int = 0) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(size=(2, 3, grid.tokens, grid.tokens))
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_attention_distance_equals_a_loop(grid) -> None:
    found = probes.attention_distance(weights(grid), grid)
    assert found.shape == (2, 3)
    np.testing.assert_allclose(found, by_loop.attention_distance(weights(grid), grid), rtol=0, atol=1e-10)
    tensor = torch.tensor(weights(grid), requires_grad=True)
    np.testing.assert_array_equal(probes.attention_distance(tensor, grid), found)


def test_uniform_attention_on_14_by_14_is_7_281_patches() -> None:
    for prefix in (0, 1, 2):
        grid = Grid(14, 14, prefix)
        found = probes.attention_distance(np.full((grid.tokens, grid.tokens), 1 / grid.tokens), grid)
        assert round(float(found), 3) == 7.281


def test_attention_distance_drops_the_class_token_and_renormalizes() -> None:
    """Pitfalls: the class token counted as a patch; rows that no longer sum to 1."""
    bare, grid = Grid(2, 3), Grid(2, 3, prefix=1)
    inside = weights(bare)[0, 0]
    outside = np.full((7, 7), 0.5)
    outside[1:, 1:] = inside * 0.5
    assert probes.attention_distance(outside, grid) == pytest.approx(probes.attention_distance(inside, bare), abs=1e-12)
    outside[1, 1:] = 0.0
    rest = probes.attention_distance(outside, grid)
    assert np.isfinite(rest), "a query that looks at no patch is left out"
    with pytest.raises(ProbeError, match=r"weights must have the shape \(..., 6, 6\), got \(7, 7\)"):
        probes.attention_distance(outside, bare)


def test_weights_are_those_of_a_softmax() -> None:
    with pytest.raises(ProbeError, match="weights must be 0 or more, as a softmax gives them, got negative"):
        probes.attention_distance(np.eye(4) - 0.1, Grid(2, 2))
    assert np.isnan(probes.attention_distance(np.eye(5)[[0] * 5], Grid(2, 2, prefix=1)))


def test_attention_to_oneself_is_0_and_rows_are_not_columns() -> None:
    grid = Grid(2, 5)
    assert probes.attention_distance(np.eye(10), grid) == 0
    right = np.roll(np.eye(10), 1, axis=1)
    mean = (8 * 1 + 2 * np.hypot(4, 1)) / 10
    assert probes.attention_distance(right, grid) == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_similarity_equals_a_loop(grid) -> None:
    found = probes.similarity(codes(grid), grid)
    np.testing.assert_allclose(found, by_loop.similarity(codes(grid), grid), rtol=0, atol=1e-10)
    for t in range(grid.patches):
        x, y = by_loop.place(grid, t)
        assert found[t, y, x] == pytest.approx(1, abs=1e-12)


def test_a_code_of_zeros_is_similar_to_none() -> None:
    assert not probes.similarity(np.zeros((4, 3)), Grid(2, 2)).any()


@pytest.mark.parametrize("kind", ["positions", "pairs"])
@pytest.mark.parametrize("target", ["left", "above"])
def test_direction_equals_a_loop_with_newtons_method(kind, target) -> None:
    grid, seed = Grid(4, 6), 3
    made, axis = codes(grid), ("left", "above").index(target)
    at = [by_loop.place(grid, patch)[axis] for patch in range(24)]
    keep = np.array([[at[i] != at[j] for j in range(24)] for i in range(24)])
    scores = []
    for fold in split(grid, kind, seed, keep):
        (x, y), (x_test, y_test) = (
            (
                np.array([made[i] - made[j] for i, j in pairs]),
                np.array([by_loop.place(grid, i)[axis] < by_loop.place(grid, j)[axis] for i, j in pairs]),
            )
            for pairs in (fold.train, fold.test)
        )
        x, x_test = by_loop.standardized(x, x_test)
        w = by_loop.logistic(x, y.astype(float))
        scores.append(np.mean([(row @ w[:-1] + w[-1] > 0) == truth for row, truth in zip(x_test, y_test, strict=True)]))
    assert probes.direction(made, grid, target, kind, seed) == pytest.approx(np.mean(scores), abs=1e-10)


@pytest.mark.parametrize("kind", ["positions", "pairs"])
def test_distance_equals_a_loop_with_the_normal_equations(kind) -> None:
    grid, seed = Grid(4, 6, prefix=1), 5
    made = codes(grid)
    scores = []
    for fold in split(grid, kind, seed, np.ones((24, 24), dtype=bool)):
        (x, y), (x_test, y_test) = (
            (
                np.array([made[i] - made[j] for i, j in pairs]),
                np.array([np.subtract(by_loop.place(grid, i), by_loop.place(grid, j)) for i, j in pairs]).astype(float),
            )
            for pairs in (fold.train, fold.test)
        )
        x, x_test = by_loop.standardized(x, x_test)
        scores.append(by_loop.r2(x, y, x_test, y_test))
    assert probes.distance(made, grid, kind, seed) == pytest.approx(np.mean(scores), abs=1e-10)


def test_folds_of_positions_share_no_position_and_folds_of_pairs_do() -> None:
    keep = np.ones((40, 40), dtype=bool)
    seen = []
    for fold in split(Grid(5, 8), "positions", 0, keep):
        assert not {*fold.train.ravel()} & {*fold.test.ravel()}
        assert (fold.test[:, 0] != fold.test[:, 1]).all()
        seen += [*np.unique(fold.test)]
    assert sorted(seen) == list(range(40)), "each position is tested once"
    folds = split(Grid(5, 8), "pairs", 0, keep)
    assert any({*fold.train.ravel()} & {*fold.test.ravel()} for fold in folds)
    tested = sorted(tuple(pair) for fold in folds for pair in fold.test)
    assert tested == [(i, j) for i in range(40) for j in range(40) if i != j]
    for fold in folds:
        assert not {*map(tuple, fold.train)} & {*map(tuple, fold.test)}


def test_folds_are_decided_by_the_seed_and_large_ones_are_sampled() -> None:
    keep = np.ones((196, 196), dtype=bool)
    first, again, other = (split(Grid(14, 14), "positions", seed, keep) for seed in (0, 0, 1))
    assert all((a.train == b.train).all() and (a.test == b.test).all() for a, b in zip(first, again, strict=True))
    assert any((a.train != b.train).any() for a, b in zip(first, other, strict=True))
    assert {len(fold.train) for fold in first} == {MOST_PAIRS}


def test_random_codes_are_at_chance_only_where_positions_are_unseen() -> None:
    """Pitfall: with as many channels as positions, folds over pairs say that random codes know their places."""
    grid = Grid(7, 7)
    apart = [probes.direction(codes(grid, 96, seed), grid, seed=seed) for seed in range(3)]
    leaky = [probes.direction(codes(grid, 96, seed), grid, folds="pairs", seed=seed) for seed in range(3)]
    assert np.mean(apart) < 0.6
    assert np.mean(leaky) > 0.9
    assert probes.distance(codes(grid, 96), grid) < 0
    assert probes.distance(codes(grid, 96), grid, folds="pairs") > 0.99


def test_the_scale_of_a_code_does_not_matter() -> None:
    """Pitfall: the penalty of a logistic regression depends on the scale of its features."""
    grid = Grid(5, 5)
    made = codes(grid, 4) + np.arange(25)[:, None] % 5 * 0.5
    for probe in (probes.direction, probes.distance):
        assert probe(made * 1e-4, grid) == pytest.approx(probe(made, grid), abs=1e-9)
        assert probe(made * 1e4, grid) == pytest.approx(probe(made, grid), abs=1e-9)


def test_both_targets_have_both_answers() -> None:
    """Pitfalls: only pairs i < j, of which none is above; pairs in one column, which are neither left nor right."""
    grid = Grid(4, 5)
    column, row = np.arange(20.0) % 5, np.arange(20.0) // 5
    for target, mine, other in (("left", column, row), ("above", row, column)):
        assert probes.direction(mine[:, None], grid, target) == 1
        assert abs(probes.direction(other[:, None], grid, target) - 0.5) < 0.2
    assert probes.distance(np.stack([column, row], axis=1), grid) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("dim", [16, 96])
def test_sinusoids_know_all_fourier_more_with_gamma_random_nothing(dim) -> None:
    grid = Grid(7, 7)

    def of(**values) -> torch.Tensor:
        found = {f"encoding.{name}": value for name, value in values.items()}
        model = build_model(
            Recipe().put({"data.image_size": 28, "model.embed_dim": dim, "model.num_heads": 2, **found})
        )
        init_weights(model, 0)
        return probes.codes_of(model.double())

    assert probes.direction(of(kind="sinusoidal"), grid) == 1
    assert probes.distance(of(kind="sinusoidal"), grid) > 0.999
    near, far = (of(kind="fourier", gamma=gamma) for gamma in (1.0, 5.0))
    assert probes.direction(far, grid) > 0.97
    assert 0.55 < probes.direction(near, grid) < probes.direction(far, grid) + 1e-9
    assert probes.distance(near, grid) < probes.distance(far, grid)


def test_codes_must_be_those_of_the_patches() -> None:
    with pytest.raises(ProbeError, match="a row for each of the 6 patches of the grid, without prefix tokens, got"):
        probes.similarity(np.ones((7, 3)), Grid(2, 3, prefix=1))
    with pytest.raises(ProbeError, match="codes must be finite, got NaN or infinity"):
        probes.distance(np.full((6, 3), np.nan), Grid(2, 3))
    with pytest.raises(ProbeError, match="the grid must have enough pairs to split, got 8 x 1 patches"):
        probes.direction(np.ones((8, 2)), Grid(8, 1), "left")
    with pytest.raises(ProbeError, match="target must be 'left' or 'above', got 'right'"):
        probes.direction(np.ones((8, 2)), Grid(4, 2), "right")
    with pytest.raises(ProbeError, match="folds must be 'positions' or 'pairs', got 'both'"):
        probes.distance(np.ones((8, 2)), Grid(4, 2), "both")


def test_image_classes_are_the_four_of_right_and_wrong() -> None:
    truth = np.array([0, 1, 2, 0, 1])
    with_it, without = np.array([0, 2, 2, 1, 1]), np.array([0, 1, 0, 2, 1])
    found = probes.image_classes(with_it, without, truth)
    expected = {"ignored": 0, "mislead": 0, "correct": 0, "useless": 0}
    for a, b, t in zip(with_it, without, truth, strict=True):
        expected[{(1, 1): "ignored", (0, 1): "mislead", (1, 0): "correct", (0, 0): "useless"}[(a == t, b == t)]] += 1
    assert found.counts == expected == {"ignored": 2, "mislead": 1, "correct": 1, "useless": 1}
    assert [*found.mislead] == [False, True, False, False, False]
    assert (found.ignored.astype(int) + found.mislead + found.correct + found.useless == 1).all()
    outputs = torch.nn.functional.one_hot(torch.tensor(with_it), 3).float()
    assert probes.image_classes(outputs, without, torch.tensor(truth)).counts == found.counts
    with pytest.raises(ProbeError, match=r"must be of the same images, got \(5,\), \(4,\), \(5,\)"):
        probes.image_classes(with_it, without[:4], truth)


GRID = Grid(6, 9)
NAMES = ("sigma", "wavelength", "phase", "weight")
X, Y = (np.arange(54) % 9).astype(float), (np.arange(54) // 9).astype(float)
LINE_X, LINE_Y = X / 4 - 1, Y / 2.5 - 1


def wave(line: np.ndarray, sigma: float, wavelength: float, phase: float) -> np.ndarray:
    return np.exp(-(line**2) / (2 * sigma**2)) * np.cos(2 * math.pi * line / wavelength + phase)


def shape(channel: np.ndarray, grid: Grid = GRID) -> str:
    (found,) = probes.channel_shapes(channel[:, None], grid).kinds
    return str(found)


def test_each_kind_has_its_rule() -> None:
    across, down = wave(LINE_X, 0.8, 1.3, 0.4), wave(LINE_Y, 0.7, 1.1, 1.0)
    border = ((X == 0) | (X == 8) | (Y == 0) | (Y == 5)).astype(float)
    noise = np.random.default_rng(0).normal(size=54)
    assert shape(across) == "striped"
    assert shape(down * 3 + 0.1 * across) == "striped"
    assert shape(across + down) == "raster"
    assert shape(border) == "box"
    assert shape(noise) == "chaos"
    assert shape(across + 0.2 * noise) == "striped"
    assert shape(np.full(54, 3.3)) == "chaos", "a channel that is the same everywhere shows nothing"
    assert shape(X * 0 + (X + Y) % 2) == "chaos", "a chessboard is no sum of stripes"


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
