"""Limits and shared runs, on input that is awkward."""

from types import SimpleNamespace

import pytest

from service.analysis.comparison import _match
from service.analysis.data_efficiency import Curve
from tests.rooms.service.analysis.test_statistics import scores


def test_limits_that_all_are_perfect_are_no_certainty():
    rows = {100: (0.70, 0.72, 0.69), 200: (0.90, 0.93, 0.91), 400: (0.99, 0.985, 0.992), 800: (1.0, 1.0, 1.0)}
    curve = Curve("x", {size: scores(*row) for size, row in rows.items()})
    low, high = curve.over_seeds("limit").interval()
    assert low < high, (low, high)


def test_runs_that_both_sides_share_are_in_no_test():
    trial = SimpleNamespace(recipe=SimpleNamespace(data=SimpleNamespace(scale="accuracy, 0.5")))

    def one(test, codes):
        answers = {
            seed: SimpleNamespace(run=SimpleNamespace(key=f"k{seed}"), name=code) for seed, code in enumerate(codes)
        }
        return SimpleNamespace(trial=trial, test=test, answers=answers, name="a")

    a = one(scores(0.90, 0.91, 0.92, 0.90, 0.91), "ooooo")
    b = one(scores(0.90, 0.91, 0.92, 0.95, 0.96), "ooonn")
    assert _match(a, b).estimate.mean == pytest.approx(0.05), "the three runs that both share differ by nothing"
