"""Skill: the share of the way from chance to a perfect score, so that tasks with different metrics can be compared."""

import pytest

from service.analysis.scores import score_scale
from trainables.data import Digits, RedGreen


def test_it_is_zero_at_chance_and_one_where_all_is_right(subtests) -> None:
    for data, metric, skill in [
        (RedGreen(task="direction", skill=True), 0.5, 0.0),
        (RedGreen(task="direction", skill=True), 0.75, 0.5),
        (RedGreen(task="direction4", skill=True), 0.25, 0.0),
        (RedGreen(task="direction4", skill=True), 1.0, 1.0),
        (RedGreen(task="distance", skill=True), 0.8, 0.8),
        (Digits(skill=True), 0.0, -1 / 9),
        (Digits(), 0.3, 0.3),
    ]:
        with subtests.test(f"{data}, {metric}, {skill}"):
            assert data.score(metric, "test") == pytest.approx(skill)
            assert data.score(data.metric_chance, "test") == pytest.approx(data.chance("test"))
            assert data.score(1.0, "test") == 1.0


def test_what_a_guess_may_reach_is_the_same_in_both_units() -> None:
    """On 100 images one guess in a thousand exceeds 0.5 + 3.09 * sqrt(0.25 / 100), a skill of 0.309."""
    plain, skill = (score_scale(RedGreen(task="direction", val_size=100, skill=one), "val") for one in (False, True))
    assert plain.guessing() == pytest.approx(0.5 + 3.0902 * 0.05, abs=1e-4)
    assert skill.guessing() == pytest.approx(2 * (plain.guessing() - 0.5))
    assert plain.guessing(4) == pytest.approx(0.5 + 3.0902 * 0.025, abs=1e-4)
    assert (skill.chance, skill.low, skill.high) == (0.0, -1.0, 1.0)
    assert skill.step == pytest.approx(0.02)
