"""Curves of runs that train nothing: always the same, best at one point, and near their formula."""

import math
from itertools import pairwise

import pytest

from search_spaces.space import Choice, Real, Space
from search_spaces.study import Search, Study
from service.execution.simulation_engine import CEILING, NOISE, FakeRuns
from trainables.recipe import Recipe

BASE = Recipe().put({"encoding.kind": "fourier", "optimizer.epochs": 9})
SPACE = Space(
    {"encoding.gamma": Real(low=0.1, high=40, log=True), "encoding.injection.kind": Choice(options=("add", "concat"))}
)


@pytest.fixture(scope="module")
def runs():
    return FakeRuns(Study(name="fake", question="?", base=BASE, plan=Search(space=SPACE, trials=9)).at())


def point(runs, number, gamma, injection="add"):
    return runs.edition.trial(number, {"encoding.gamma": gamma, "encoding.injection.kind": injection})


def test_a_run_has_the_same_numbers_whenever_it_is_asked(runs):
    trial = point(runs, 0, 2.0)
    again = FakeRuns(runs.edition)
    assert runs.values(trial, 3, 5) == again.values(trial, 3, 5)
    assert runs.values(trial, 3, 5) != runs.values(trial, 4, 5)
    assert 0.9 <= runs.pace(trial.run(0).key) <= 1.1


def test_scores_fall_on_both_sides_of_one_best_point(runs):
    gammas = [0.1 * 400 ** (step / 200) for step in range(201)]
    scores = [runs.quality(point(runs, number, gamma)) for number, gamma in enumerate(gammas)]
    best = scores.index(max(scores))
    assert scores[: best + 1] == sorted(scores[: best + 1])
    assert scores[best:] == sorted(scores[best:], reverse=True)
    assert 0 < min(scores) < max(scores) <= 1


def test_a_curve_rises_from_chance_to_what_its_quality_says(runs):
    trial = point(runs, 0, 2.0)
    chance = BASE.data.chance("val")
    final = chance + (1 - chance) * CEILING * runs.quality(trial)
    ends = [runs.values(trial, seed, 9)["val/accuracy"] for seed in range(200)]
    assert sum(ends) / 200 == pytest.approx(final, abs=4 * NOISE / math.sqrt(200))
    curve = [sum(runs.values(trial, seed, epoch)["val/accuracy"] for seed in range(50)) / 50 for epoch in range(1, 10)]
    assert all(after > before - NOISE / 2 for before, after in pairwise(curve))
    assert {*runs.values(trial, 0, 9)} - {*runs.values(trial, 0, 8)} == {"test/accuracy"}
