"""Probes of arrays against loops in float64, and each pitfall of such probes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.rooms.trainables.probes import by_loop
from trainables import probes
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
