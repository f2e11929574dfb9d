"""Measures over tasks, against rliable's formulas written one by one, and what their bootstrap draws."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm

from service.analysis.league import RunsOverTasks
from service.analysis.statistics import Scale, Scores
from tests.calibration.league import drawn, rejections, rows

METHODS = ("a", "b", "c", "d")
FAMILIES = {"left": "squares", "right": "squares", "digits": "digits"}


def table(seeds=7, step=0.01):
    """Scores in whole steps, so that some tie. By task, then by method."""
    draw = np.random.default_rng(1)
    scale = Scale(0.0, -1.0, 1.0, step)
    return {
        task: {
            name: Scores(dict(enumerate(np.round(draw.uniform(0.2, 0.6, seeds) + 0.1 * place, 2))), seeds, scale)
            for place, name in enumerate(METHODS)
        }
        for task in FAMILIES
    }


@pytest.fixture(scope="module")
def runs() -> RunsOverTasks:
    return RunsOverTasks.of(table(), FAMILIES)


def test_a_family_counts_once_with_the_mean_over_its_tasks(runs):
    known = table()
    for place, name in enumerate(METHODS):
        squares = np.mean([[*known[task][name].values.values()] for task in ("left", "right")])
        assert runs.means("squares")[name] == pytest.approx(squares)
        assert runs.means("digits")[name] == pytest.approx(known["digits"][name].mean)
        errors = [known[task][name].whole.error for task in FAMILIES]
        assert runs.errors[place] == pytest.approx(errors)
    assert [*runs.ranking().by_family] == ["squares", "digits"]


def test_ranks_of_a_family_take_the_noise_of_its_mean():
    """Two tasks halve the variance of a mean: the standard error of its difference is 0.1 for 0.1 * sqrt 2 of one."""

    def ranked(gap, families, error=0.1, step=0.0):
        means = {"a": 0.5 + gap, "b": 0.5, "c": -5.0}
        spread = np.array([-1.0, 0.0, 1.0]) * np.sqrt(3) * error
        scale = Scale(0.0, -1.0, 1.0, step)
        found = {
            task: {name: Scores(dict(enumerate(mean + spread)), 3, scale) for name, mean in means.items()}
            for task in families
        }
        runs = RunsOverTasks.of(found, families)
        return runs.ranking().by_family

    both, alone = {"x": "f", "y": "f"}, {"x": "x", "y": "y"}
    assert ranked(0.21, both)["f"] == {"a": 1, "b": 2, "c": 3}
    assert ranked(0.19, both)["f"] == {"a": 1.5, "b": 1.5, "c": 3}
    assert ranked(0.21, alone)["x"] == {"a": 1.5, "b": 1.5, "c": 3}
    assert ranked(0.29, alone)["x"] == {"a": 1, "b": 2, "c": 3}
    for families, name in ((both, "f"), (alone, "x")):
        assert ranked(0.21, families, 0.0, 0.1)[name] == {"a": 1, "b": 2, "c": 3}
        assert ranked(0.2, families, 0.0, 0.1)[name] == {"a": 1.5, "b": 1.5, "c": 3}, "two images in each task"


def test_a_seed_that_fails_counts_in_the_mean_and_in_its_noise():
    """Of the seeds that learn `b` is 0.01 above `a`, without noise; of all seeds it is 0.31 below, and within noise."""
    scale = Scale(0.0, -1.0, 1.0, 0.002)
    values = {"a": (0.98, 0.98, 0.98), "b": (0.99, 0.99, 0.03), "c": (0.1, 0.1, 0.1)}
    found = {"x": {name: Scores(dict(enumerate(some)), 3, scale) for name, some in values.items()}}
    assert len(found["x"]["b"].learnt) == 2
    runs = RunsOverTasks.of(found, {"x": "x"})
    assert runs.means("x") == pytest.approx({"a": 0.98, "b": 0.67, "c": 0.1})
    assert runs.ranking().by_family["x"] == {"a": 1.5, "b": 1.5, "c": 3}
    assert runs.errors[1, 0] == pytest.approx(np.std(values["b"], ddof=1) / np.sqrt(3))


def test_the_interquartile_mean_is_that_of_the_middle_half_of_all_runs(runs):
    for scores, found in zip(runs.scores, runs.interquartile_means().values(), strict=True):
        every = sorted(scores.ravel())
        assert len(every) == 21
        assert found.value == pytest.approx(np.mean(every[5:-5])), "a quarter of 21 is 5, cut at each end"
        assert found.interval[0] < found.value < found.interval[1]


def test_the_probability_of_improvement_is_mann_whitneys(runs):
    found = runs.improvements("b")
    assert [*found] == ["a", "c", "d"]
    own = runs.scores[1]
    for place, name in ((0, "a"), (2, "c"), (3, "d")):
        us = [mannwhitneyu(runs.scores[place][task], own[task]).statistic / 49 for task in range(3)]
        pairs = [
            (one > two) + (one == two) / 2
            for task in range(3)
            for one, two in product(runs.scores[place][task], own[task])
        ]
        assert found[name].value == pytest.approx(np.mean(us)) == pytest.approx(np.mean(pairs))
        assert 0 <= found[name].interval[0] <= found[name].value <= found[name].interval[1] <= 1


def test_a_profile_is_the_share_of_runs_above_each_threshold(runs):
    for scores, found in zip(runs.scores, runs.profiles().values(), strict=True):
        assert (found.thresholds[0], found.thresholds[-1], len(found.thresholds)) == (0.0, 1.0, 101)
        for threshold, share in zip(found.thresholds, found.shares, strict=True):
            assert share == np.mean([score > threshold for score in scores.ravel()])
        assert (found.low <= found.shares).all()
        assert (found.shares <= found.high).all()


def test_seeds_are_drawn_within_their_task_and_method():
    """Where the seeds of each task agree, no draw changes anything, however far tasks lie apart."""
    scale = Scale(0.0, -1.0, 1.0, 0.0)
    found = {
        task: {name: Scores(dict.fromkeys(range(3), mean), 3, scale) for name, mean in zip("abc", means, strict=True)}
        for task, means in {"x": (0.9, 0.5, 0.1), "y": (0.2, 0.3, 0.1)}.items()
    }
    runs = RunsOverTasks.of(found, {"x": "x", "y": "y"})
    for one in [*runs.interquartile_means().values(), *runs.improvements("a").values()]:
        assert one.interval == (one.value, one.value)
    profile = runs.profiles()["a"]
    assert (profile.low == profile.shares).all()
    assert (profile.high == profile.shares).all()


def test_intervals_of_means_are_as_wide_as_they_must_be():
    """Of normal seeds the bootstrap's interval is the normal one, with the deviation of n in place of n - 1."""
    draw, scale = np.random.default_rng(5), Scale(0.0, -10.0, 10.0, 0.0)
    found = {
        f"t{task}": {name: Scores(dict(enumerate(draw.normal(size=30))), 30, scale) for name in "abc"}
        for task in range(20)
    }
    runs = RunsOverTasks.of(found, {task: task for task in found})
    above = runs.improvements("a")["b"]
    half = norm.ppf(0.975) * np.sqrt(2 / 12 / 30 / 20)  # the Mann-Whitney variance of equal methods, about 1 / 6n
    assert above.interval[1] - above.interval[0] == pytest.approx(2 * half, rel=0.15)
    low, high = runs.interquartile_means()["a"].interval
    assert high - low == pytest.approx(2 * norm.ppf(0.975) * 1.09 / np.sqrt(600), rel=0.15), "efficiency of an IQM: .84"
    assert runs.interquartile_means() == runs.interquartile_means(), "the same draws each time"


def test_with_fewer_than_three_seeds_no_interval_is_shown():
    runs = RunsOverTasks.of(table(seeds=2), FAMILIES)
    assert {one.interval for one in runs.interquartile_means().values()} == {None}
    assert {one.interval for one in runs.improvements("a").values()} == {None}
    assert runs.profiles()["a"].low is None


def test_families_that_share_effects_are_rarely_told_apart_where_no_method_is_better():
    """The short form of `make calibration`; tasks that count one by one are told apart far more often."""
    missed = [str(row) for row in rows(20) if not row.holds]
    assert not missed
    draw = np.random.default_rng(0)
    studies = [drawn("AAAAAAB", 0.8, draw)[0] for _ in range(20)]
    one_by_one = [replace(runs, families={str(task): (task,) for task in range(7)}) for runs in studies]
    assert sum(rejections(runs.ranking())[0] for runs in one_by_one) > 15
