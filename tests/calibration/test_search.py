"""The calibration of searches: its surrogates are what they say, and its searches are real ones."""

import random

import pytest

from tests.calibration.search import CHANCE, CLOSE, EPOCHS, SEEDS, SURROGATES, TOP, measured_score, rows, search


def test_the_best_of_each_surrogate_is_the_same():
    for name, surrogate in SURROGATES.items():
        chance = random.Random(0)
        points = [
            surrogate.space.point(surrogate.base, lambda _, one, chance=chance: one.draw(chance)) for _ in range(4000)
        ]
        highest = max(map(surrogate.truth, points))
        assert TOP - CLOSE / 2 < highest <= TOP, name


def test_a_search_has_the_same_end_each_time_and_trains_less_than_random_points():
    surrogate = SURROGATES["branin"]
    first, again = (search(surrogate, surrogate.edition(3, points=14), 8) for _ in range(2))
    plain = search(surrogate, surrogate.edition(3, points=14, plain=True), 8)
    assert first == again
    assert first.epochs < plain.epochs == 14 * SEEDS * EPOCHS
    assert not plain.lost


def test_seeds_of_a_point_begin_to_learn_together_or_each_at_an_epoch_of_its_own():
    for name, begun in (("branin", [30]), ("branin, seeds start late", range(10, 21))):
        surrogate = SURROGATES[name]
        best = {"encoding.gamma": 0.1 * 400 ** ((9.42478 + 5) / 15), "optimizer.lr": 1e-4 * 1000 ** (2.475 / 15)}
        trial = surrogate.edition(0, points=1).trial(0, best)
        values = [[measured_score(surrogate, trial, run, epoch) for epoch in (4, EPOCHS)] for run in trial.runs(30)]
        assert sum(early > (CHANCE + TOP) / 2 for early, _ in values) in begun, name
        assert all(abs(end - TOP) < 0.06 for _, end in values), name


@pytest.mark.slow
def test_a_short_table_has_a_row_for_each_bar():
    found = [row.what for row in rows(2)]
    assert len(found) == len(set(found))
    for name in SURROGATES:
        assert sum(what.startswith(f"{name}, ") for what in found) >= 3
        assert f"{name}: regret with 8 at a time over 1" in found
