"""Successive halving at its edge: who is as good as the cut-off goes on."""

import pytest

from service.planning.stopping import EarlyStopper
from tests.rooms.service.planning.situations import search


def test_a_value_at_the_cutoff_goes_on_and_one_below_it_is_stopped() -> None:
    """Five trials gain 0.25 after the rung at epoch 2 of 4 and end at 0.875, as one with 0.625 there may."""
    for value, cutoff in ((0.625, None), (0.5625, 0.625)):
        stopper = EarlyStopper(search(), seeds=1)
        for number in range(5):
            assert stopper.report(number, 2, 0.625) is None
            assert stopper.report(number, 4, 0.875) is None
        assert stopper.report(5, 2, value) == cutoff


def test_a_rung_stops_none_where_a_seed_of_the_best_began_to_learn_later() -> None:
    """Chance is 0.5. The five best have two seeds, of which one was at the rung at 0.5, or at 0.6."""
    for there, cutoff in ((0.6, 0.6), (0.5, None)):
        stopper = EarlyStopper(search(), seeds=2)
        for number in range(5):
            for seed, value in enumerate((0.9, there if number == 2 else 0.9)):
                assert stopper.report(number, 2, value, seed) is stopper.report(number, 4, 0.9, seed) is None
        assert stopper.report(5, 2, 0.55) == (None if cutoff is None else pytest.approx(cutoff))


def test_points_end_with_all_their_seeds() -> None:
    stopper = EarlyStopper(search(), seeds=2)
    for seed in range(2):
        for number in range(5):
            assert stopper.report(number, 2, 0.9, seed) is stopper.report(number, 4, 0.9, seed) is None
            assert stopper.report(6 + 5 * seed + number, 2, 0.55) == (0.9 if seed and number == 4 else None)
