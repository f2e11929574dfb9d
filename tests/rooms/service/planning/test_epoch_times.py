"""The time of an epoch comes from the same work where some was measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.planning.epoch_times import TIMELESS, EpochTimes, run_time, side_by_side
from trainables.encodings import Fourier
from trainables.recipe import Recipe
from trainables.recipe.optimizer import SGD, AdamW, Muon

NEAR = Recipe(encoding=Fourier(gamma=1.0))
FAR = NEAR.put({"encoding.gamma": 5.0})


def timed(recipe, *seconds, ended=True):
    return run_time(recipe, [{"time/epoch_s": one} for one in seconds], ended)


def test_an_epoch_takes_as_long_as_in_runs_of_the_same_work() -> None:
    times = EpochTimes([timed(NEAR, 1.0), timed(NEAR, 2.0), timed(NEAR, 3.0), timed(FAR, 10.0)])
    assert (times(NEAR), times(FAR)) == (2.0, 10.0)
    assert times(NEAR.put({"optimizer.lr": 0.1, "optimizer.epochs": 99})) == 2.0, "a rate changes no time"
    assert times(NEAR.put({"optimizer.batch_size": 7})) == times.usual == 6.0, "smaller batches do"
    assert times(NEAR.put({"encoding.kind": "none"})) == 6.0
    for path, value in {"precision": "float64", "accumulate": 4, "ema_decay": 0.9}.items():
        assert times(NEAR.put({f"optimizer.{path}": value})) == 6.0, "so does what is computed in a step"
    assert "optimizer" in NEAR.put({"optimizer.lr": 0.1}).identity(), "what decides a key is not changed"


def test_values_without_time_are_values_of_an_optimizer() -> None:
    assert {*TIMELESS} < {name for kind in (AdamW, SGD, Muon) for name in kind.model_fields}


def test_nothing_is_known_without_measured_epochs() -> None:
    assert EpochTimes([None])(NEAR) is None
    assert run_time(NEAR, [{"val/accuracy": 0.5}], ended=True) is run_time(NEAR, [], ended=False) is None


def test_a_run_of_one_epoch_says_little_of_the_epochs_of_long_runs() -> None:
    """One frozen epoch with its tests takes 5 s, 20 epochs of another run 22 s: an epoch of a third one 27 / 21 s."""
    short = timed(NEAR.put({"optimizer.epochs": 1}), 5.0)
    long = timed(FAR.put({"optimizer.epochs": 20}), *[1.0] * 19, 3.0)
    assert EpochTimes([short, long, long])(NEAR.put({"encoding.kind": "none"})) == pytest.approx(27 / 21)


def test_tests_after_the_last_epoch_are_spread_over_all_epochs() -> None:
    """12 epochs of 2.5 s with tests of 4 s at the end take 34 s, so an epoch takes 2.83 s and not 2.5 or 6.5."""
    assert timed(NEAR, *[2.5] * 11, 6.5).epoch_s == pytest.approx(34 / 12)


def test_a_slow_first_epoch_says_nothing_of_those_that_are_left() -> None:
    """After 60 s of preparation and nine epochs of 1 s a run that goes on has epochs of 1 s, and not of 6.9 s."""
    assert timed(NEAR, 60.0, *[1.0] * 9, ended=False).epoch_s == 1.0


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=20), st.integers(1, 8))
def test_runs_side_by_side_take_no_less_than_the_longest_and_than_their_share(seconds, slots) -> None:
    found = side_by_side(seconds, slots)
    assert found >= max(seconds)
    assert found >= sum(seconds) / slots - 1e-9
    assert found <= sum(seconds) + 1e-9
    assert found <= sum(seconds) / slots + max(seconds) + 1e-9
    assert side_by_side(seconds, 1) == pytest.approx(sum(seconds))
    assert side_by_side([], slots) == 0.0


def test_equal_runs_take_whole_rounds() -> None:
    for runs, slots, rounds in [(17, 16, 2), (5, 4, 2), (3, 2, 2), (4, 4, 1), (32, 16, 2)]:
        assert side_by_side([10.0] * runs, slots) == pytest.approx(10 * rounds)
