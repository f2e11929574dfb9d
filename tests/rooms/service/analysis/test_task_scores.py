"""The scores of methods over tasks, and claims about them."""

import math

import numpy as np
import pytest
from scipy import stats

from search_spaces.claim import BetterOverTasks
from service.analysis.scores import difference_over_tasks, over_tasks
from service.analysis.statistics import Scale, Scores
from service.analysis.verdicts import judge
from tests.calibration.seeds import SCALE, scored

FAMILIES = {"left": "squares", "right": "squares"}
SHARES = {"left": 0.25, "right": 0.25, "digits": 0.5}
PLAIN = Scale(0.5, 0.0, 1.0)  # without images there are no logits


def plain(*values: float) -> Scores:
    return Scores(dict(enumerate(values)), len(values), PLAIN)


def test_the_difference_over_tasks_is_that_of_the_means_of_families_of_means_of_tasks():
    rng = np.random.default_rng(1)
    who, than = (0.8 + 0.05 * rng.random((3, 6)) for _ in range(2))
    one, other = ({task: plain(*row) for task, row in zip(SHARES, rows, strict=True)} for rows in (who, than))

    found = difference_over_tasks(over_tasks(one, FAMILIES), over_tasks(other, FAMILIES))

    by_seed = np.array([*SHARES.values()]) @ (who - than)
    assert found is not None
    assert found.mean == pytest.approx(by_seed.mean())
    expected = stats.ttest_1samp(by_seed, 0, alternative="greater").pvalue
    assert found.p_above(0) == pytest.approx(expected)


def test_runs_that_do_not_learn_leave_the_mean_and_the_error_to_those_of_their_task_that_do():
    learn = [0.90, 0.93, 0.99]
    tasks = {"left": plain(*learn, 0.5, 0.49), "right": plain(*[0.9] * 5), "digits": plain(*[0.8] * 5)}
    nothing = over_tasks({task: plain(*[0.5] * 5) for task in tasks}, FAMILIES)
    scores = over_tasks(tasks, FAMILIES)

    found = difference_over_tasks(scores, nothing)

    assert found is not None
    assert found.mean == pytest.approx(0.25 * np.mean(learn) + 0.25 * 0.9 + 0.5 * 0.8 - 0.5)
    assert found.error == pytest.approx(0.25 * np.std(learn, ddof=1) / math.sqrt(3))
    assert found.freedom == 2
    assert len(scores.learnt) == 5
    assert not nothing.learnt

    verdict = judge([BetterOverTasks("a", "none")], lambda _: {"a": scores, "none": nothing})[0]
    assert "13 of 15 runs of “a” learn" in verdict.why
    assert "0 of 15 runs of “none” learn" in verdict.why

    few = over_tasks({**tasks, "left": plain(0.9, 0.93, 0.5, 0.5, 0.49)}, FAMILIES)
    verdict = judge([BetterOverTasks("a", "none")], lambda _: {"a": few, "none": nothing})[0]
    assert verdict.word == "INCONCLUSIVE"
    assert verdict.why == "Only 2 of 5 seeds of “a” learn on “left”; a claim needs 3 that do."


def test_a_difference_that_failures_could_undo_is_one_of_seeds_that_learn():
    def method(good: float, seeds: int = 5) -> Scores:
        rng = np.random.default_rng(round(1000 * good))
        return over_tasks({task: scored(good + 0.004 * rng.standard_normal(seeds)) for task in SHARES}, FAMILIES)

    nothing = over_tasks({task: scored(np.full(20, SCALE.chance)) for task in SHARES}, FAMILIES)
    claim = BetterOverTasks("a", "b")
    close = judge([claim], lambda _: {"a": method(0.99), "b": method(0.95)})[0]
    far = judge([claim], lambda _: {"a": method(0.99, 20), "b": nothing})[0]
    lacking = judge([claim], lambda _: {"a": method(0.99)})[0]
    assert close.label == "SUPPORTED of seeds that learn"
    assert far.label == "SUPPORTED"
    assert far.measured == pytest.approx(0.49, abs=0.003)
    assert lacking.why == "“b” has no test score over these tasks yet."
    assert str(far).startswith("SUPPORTED: “a” is better than “b” over these tasks. “a” minus “b” is")
