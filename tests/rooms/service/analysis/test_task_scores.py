"""The scores of methods over tasks, and claims about them."""

import numpy as np
import pytest
from scipy import stats

from search_spaces.claim import BetterOverTasks
from service.analysis.scales import Scale
from service.analysis.scores import failures, over_tasks
from service.analysis.statistics import Scores, difference
from tests.rooms.by_hand import judge
from tests.rooms.service.analysis.logits import paired_p
from tests.rooms.service.analysis.test_statistics import scores

FAMILIES = {"left": "squares", "right": "squares"}
SHARES = {"left": 0.25, "right": 0.25, "digits": 0.5}


def method(rows, scale: Scale) -> Scores:
    tasks = {task: scores(*map(float, row), scale=scale) for task, row in zip(SHARES, rows, strict=True)}
    return over_tasks(tasks, FAMILIES)


def test_the_difference_over_tasks_is_that_of_the_means_of_families_of_means_of_tasks():
    """R² has no steps; of accuracies in steps the mean over tasks has those of a mean."""
    rng = np.random.default_rng(1)
    who, than = (0.8 + 0.05 * rng.random((3, 6)) for _ in range(2))
    means = [np.array([*SHARES.values()]) @ rows for rows in (who, than)]
    found = difference(*(method(rows, Scale(0.0, high=1.0)) for rows in (who, than)))
    assert found is not None
    assert found.mean == pytest.approx(np.subtract(*means).mean())
    assert found.p_above(0) == pytest.approx(paired_p(*means, images=0))
    exact = method(who, Scale(0.25, 0.0, 1.0, 0.01))
    assert exact.scale == Scale(0.25, 0.0, 1.0, pytest.approx(0.01 * (0.25**2 + 0.25**2 + 0.5**2) ** 0.5))
    assert exact.estimate.error == pytest.approx(stats.sem([*exact.values.values()]))


def test_runs_that_failed_count_at_chance_and_are_counted_of_all_tasks():
    rng = np.random.default_rng(2)
    good = (0.9 + 0.01 * rng.standard_normal((3, 5))).round(3)
    failing = good.copy()
    failing[0, 3:] = 0.5
    scale = Scale(0.5, 0.0, 1.0, 0.001)
    one, nothing = method(failing, scale), method(np.full((3, 5), 0.5), scale)
    assert (failures(one), failures(nothing)) == ((2, 15), (0, 15))
    assert one.mean == pytest.approx((np.array([*SHARES.values()]) @ failing).mean())
    (found,) = judge([BetterOverTasks("a", "none")], lambda _: {"a": one, "none": nothing})
    most = 100 * stats.beta.ppf(0.95, 3, 13)
    assert str(found).startswith("SUPPORTED: “a” is better than “none” over these tasks. “a” minus “none” is +0.")
    assert found.unseen == f"of 30 runs 2 failed; up to {most:.0f} % of a trial's runs may score otherwise"
    (lacking,) = judge([BetterOverTasks("a", "b")], lambda _: {"a": one})
    assert lacking.why == "“b” has no test score over these tasks yet."
