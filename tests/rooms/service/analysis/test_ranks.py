"""Ranks over tasks, against the worked example of Demsar 2006 and against scipy."""

import math
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare

from service.analysis.league import Ranking, shared_ranks
from tests.rooms.service.analysis.demsar import NAMES, TABLE_6, rank


@pytest.fixture(scope="module")
def demsar():
    return rank({task: dict(zip(NAMES, scores, strict=True)) for task, scores in TABLE_6.items()})


def test_mean_ranks_are_those_of_demsar(demsar):
    assert list(demsar.means) == ["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"], "the best first"
    assert [round(mean, 3) for mean in demsar.means.values()] == [1.964, 2.0, 2.893, 3.143]


def test_friedman_is_that_of_demsar(demsar):
    assert demsar.friedman.chi2 == pytest.approx(9.28, abs=0.005)
    assert demsar.friedman.f == pytest.approx(3.69, abs=0.005)
    assert demsar.friedman.p < 0.05, "3.69 exceeds F(3, 39) = 2.85"


def test_critical_differences_are_those_of_demsar(demsar):
    assert demsar.critical_difference == pytest.approx(1.25, abs=0.005)
    assert replace(demsar, level=0.10).critical_difference == pytest.approx(1.12, abs=0.005)


def test_an_interval_of_a_mean_rank_is_that_of_ranks_in_any_order(demsar):
    """Each order of a family is as probable: the variance of a rank is that of 1 to k."""
    half = 1.959964 * np.sqrt(np.var([1, 2, 3, 4]) / len(TABLE_6))
    for name, (low, high) in demsar.intervals().items():
        assert (low, high) == pytest.approx((demsar.means[name] - half, demsar.means[name] + half))
    two, one = (Ranking({f"{place}": dict(a=1, b=2, c=3) for place in range(count)}) for count in (2, 1))
    half = 1.959964 * np.sqrt(2 / 3 / 2)
    ends = {"a": (1, 1 + half), "b": (1, 3), "c": (3 - half, 3)}
    assert two.intervals() == {name: pytest.approx(both) for name, both in ends.items()}
    assert one.intervals() == {}


def test_groups_are_those_of_demsar(demsar):
    """At 0.10 C4.5 is worse than both with m, and nothing can be said of C4.5+cf; at 0.05 no two are told apart."""
    assert replace(demsar, level=0.10).groups() == [["C4.5+m+cf", "C4.5+m", "C4.5+cf"], ["C4.5+cf", "C4.5"]]
    assert demsar.groups() == [list(demsar.means)]


def test_p_values_against_a_control_are_those_of_demsar(demsar):
    """C4.5 is the control: p is 0.016, 0.019 and 0.607, which Holm multiplies by 3, 2 and 1, never falling."""
    found = demsar.against("C4.5")
    assert found["C4.5+m+cf"].p == pytest.approx(3 * 0.016, abs=0.002)
    assert found["C4.5+m"].p == found["C4.5+m+cf"].p, "2 * 0.019 would be less"
    assert found["C4.5+cf"].p == pytest.approx(0.607, abs=0.003)


MILLIONTHS = st.integers(-(10**6), 10**6).map(lambda whole: whole / 10**6)
scores = st.integers(3, 7).flatmap(
    lambda methods: st.lists(
        st.lists(MILLIONTHS, min_size=methods, max_size=methods, unique=True), min_size=3, max_size=12
    )
)


@given(scores)
def test_friedman_agrees_with_scipy_where_nothing_is_tied(table):
    found = rank({str(task): {str(name): value for name, value in enumerate(row)} for task, row in enumerate(table)})
    assert found.friedman.chi2 == pytest.approx(friedmanchisquare(*np.array(table).T).statistic, abs=1e-8)
    assert math.fsum(found.means.values()) == pytest.approx(len(table[0]) * (len(table[0]) + 1) / 2)


@given(scores)
def test_every_method_that_is_not_told_apart_from_another_shares_a_group(table):
    found = rank({str(task): {str(name): value for name, value in enumerate(row)} for task, row in enumerate(table)})
    together = {(one, two) for group in found.groups() for one in group for two in group if one != two}
    for one in found.means:
        for two in found.means:
            near = abs(found.means[one] - found.means[two]) < found.critical_difference
            if one != two:
                assert ((one, two) in together) == (near or found.friedman.p >= 0.05)


def test_methods_that_every_task_ranks_alike_are_told_apart():
    found = rank({str(task): {"a": 3.0, "b": 2.0, "c": 1.0} for task in range(30)})
    assert found.friedman.f == math.inf
    assert found.friedman.p == pytest.approx(6.0**-29), "the first task may have any order, each other one that"
    assert found.groups() == []


def test_the_p_of_few_tasks_is_that_of_all_orders():
    """Every order of every task, one by one; ranks with ties are as likely in any order, too."""
    for methods, tasks in ((3, 3), (3, 4), (4, 3), (3, 5)):
        is_that_of_all_orders(methods, tasks)


def is_that_of_all_orders(methods: int, tasks: int) -> None:
    draw = np.random.default_rng(methods * tasks)
    for _ in range(8):
        rows = draw.integers(0, 3, size=(tasks, methods)).astype(float)
        found = rank({str(task): {str(name): value for name, value in enumerate(row)} for task, row in enumerate(rows)})
        ranks = [list(found.by_family[str(task)].values()) for task in range(tasks)]
        own = sum(np.sum(ranks, axis=0) ** 2)
        orders = [[*permutations(one)] for one in ranks]
        far = [sum(np.sum(table, axis=0) ** 2) >= own - 1e-9 for table in product(*orders)]
        assert found.friedman.p == pytest.approx(np.mean(far))


def test_three_tasks_that_nearly_agree_decide_nothing():
    """By F alone p would be 0.049; of 216 orders 42 differ as much."""
    table = {"a": (1, 2, 3), "b": (1, 2, 3), "c": (2, 1, 3)}
    found = rank({task: dict(zip("xyz", map(float, row), strict=True)) for task, row in table.items()})
    assert found.friedman.f > 7
    assert found.friedman.p == pytest.approx(7 / 36)
    assert found.groups() == [["z", "y", "x"]]
    assert replace(found, level=found.friedman.p).groups() == [["z", "y", "x"]], "a p of just the level rejects nothing"


def test_few_tasks_without_any_difference_are_rejected_once_in_twenty_at_most():
    for methods, tasks in ((3, 3), (4, 3), (5, 3), (4, 4), (5, 4)):
        assert share_rejected(methods, tasks) < 0.10, "4 standard errors above 0.05 are 0.12"


def share_rejected(methods: int, tasks: int) -> float:
    draw = np.random.default_rng(0)
    rejected = 0
    for _ in range(150):
        rows = draw.normal(size=(tasks, methods))
        scores = {
            str(task): {str(name): float(value) for name, value in enumerate(row)} for task, row in enumerate(rows)
        }
        rejected += rank(scores).friedman.p < 0.05
    return rejected / 150


def test_methods_that_always_tie_are_alike():
    found = rank({str(task): {"a": 1.0, "b": 1.0, "c": 1.0} for task in range(5)})
    assert found.friedman.chi2 == 0
    assert found.friedman.p == 1.0
    assert found.groups() == [["a", "b", "c"]]


def test_five_percent_of_studies_without_any_difference_reject():
    """By chance alone, 5 % of 2,000 tables of 8 tasks and 5 methods may be rejected; 7 % would be 4 standard errors."""
    draw = np.random.default_rng(0)
    tables = draw.normal(size=(2000, 8, 5))
    rejected = sum(
        rank({str(task): {str(name): float(value) for name, value in enumerate(row)} for task, row in enumerate(table)})
        .friedman.p < 0.05
        for table in tables
    )  # fmt: skip
    assert rejected / 2000 < 0.07


def test_means_of_the_same_right_answers_share_their_ranks():
    right = (0.1, 0.2, 0.3)
    forward, backward = sum(right) / 3, sum(reversed(right)) / 3
    assert forward != backward, "the last digit depends on the order of the sum"
    assert rank({"task": {"a": forward, "b": backward, "c": 0.0}}).by_family["task"] == {"a": 1.5, "b": 1.5, "c": 3.0}


def by_hand(means, errors, step) -> list[float]:
    """The rule of shared ranks, one method after another."""
    order = sorted(range(len(means)), key=lambda place: -means[place])
    groups: list[list[int]] = []
    for place in order:
        if groups:
            first = groups[-1][0]
            noise = max(2 * math.sqrt(errors[first] ** 2 + errors[place] ** 2), 2 * step)
        if groups and means[first] - means[place] <= noise + 1e-9:
            groups[-1].append(place)
        else:
            groups.append([place])
    found, before = [0.0] * len(means), 0
    for group in groups:
        for place in group:
            found[place] = before + (len(group) + 1) / 2
        before += len(group)
    return found


def test_methods_within_the_noise_of_the_first_of_their_group_share_a_rank():
    means = np.array([0.98, 1.0, 0.97, 0.94, 0.5])
    none, step = np.zeros(5), np.array(0.01)
    assert list(shared_ranks(means, none, np.zeros(()))) == [2, 1, 3, 4, 5]
    assert list(shared_ranks(means, none, step)) == [1.5, 1.5, 3, 4, 5], "0.97 is 0.03 from 1.0, though 0.01 from 0.98"
    wide = np.array([0.0, 0.012, 0.012, 0.012, 0.0])
    assert list(shared_ranks(means, wide, step)) == [2, 2, 2, 4, 5], "2 * 0.012 * sqrt 2 = 0.034"
    split = np.array([0.0, 0.0, 0.0, 0.0, 0.3])
    assert list(shared_ranks(means, split, np.zeros(()))) == [2, 1, 3, 4.5, 4.5], "its first is 0.94, 0.44 above"


def test_shared_ranks_of_many_tables_are_those_of_the_rule_one_by_one():
    draw = np.random.default_rng(0)
    means, errors = draw.normal(size=(40, 3, 7)), draw.exponential(0.3, size=(40, 3, 7))
    steps = draw.exponential(0.2, size=(40, 3))
    found = shared_ranks(means, errors, steps)
    for place in np.ndindex(40, 3):
        assert list(found[place]) == by_hand(means[place], errors[place], steps[place])
    assert found.sum(axis=-1) == pytest.approx(7 * 8 / 2)


def test_two_families_are_ranked_and_not_tested():
    two = Ranking({family: {name: float(place) for place, name in enumerate("abcd", 1)} for family in ("x", "y")})
    three = Ranking({**two.by_family, "z": two.by_family["x"]})
    assert [*two.means] == [*"abcd"]
    assert (two.testable, two.differs) == (False, False)
    assert (three.testable, three.differs) == (True, True)
