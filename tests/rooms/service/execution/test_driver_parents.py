"""The driver and runs that begin from others: parents first, shared ones once, their ends inherited."""

import pytest

from service.storage.facts import Ended, Planned
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import arms, facts
from tests.rooms.toy import conduct
from trainables.recipe import FromTrial

ABSOLUTE = {"data.task": "absolute", "optimizer.lr": 0.001}
STARTS = {
    "alone": {},
    "first": {"encoding.gamma": 1.0, "init": FromTrial(values={"data.task": "absolute"}).plain()},
    "second": {"encoding.gamma": 1.0, "optimizer.lr": 0.01, "init": FromTrial(values=ABSOLUTE).plain()},
    "third": {"encoding.gamma": 1.0, "init": FromTrial(values={"data.task": "direction4"}).plain()},
}
"""The first and the second share a parent."""


@pytest.mark.parametrize("keep", [("weights",), ()])
def test_parents_come_first_and_shared_ones_once(home: Home, keep: tuple) -> None:
    edition = arms(STARTS, keep=keep)
    toy = conduct(home, edition, max_concurrent=3)
    keys = [run.key for run in toy.order]
    assert len(keys) == len(set(keys))
    parents = [fact for fact in facts(home, edition, Planned) if fact.role == "parent"]
    assert [fact.number for fact in parents] == [1, 2]
    for arm in edition.arms()[1:]:
        for run in arm.runs(2):
            assert all(keys.index(parent.key) < keys.index(run.key) for parent in run.needs())
    first, second = (arm.runs(1)[0].needs()[0].key for arm in edition.arms()[1:3])
    assert first == second
    assert len(keys) == 12


def test_a_teacher_is_a_parent_listed_as_one(home: Home) -> None:
    teacher = {"kind": "from_trial", "values": {"encoding.kind": "peg"}}
    some = {"alone": {}, "taught": {"model.pool": "distilled", "teacher": teacher}}
    edition = arms(some)
    toy = conduct(home, edition)
    (listed,) = [fact for fact in facts(home, edition, Planned) if fact.role == "parent"]
    assert listed.name == "teacher: peg on direction"
    keys = [run.key for run in toy.order]
    for pupil in edition.arms()[1].runs(2):
        assert keys.index(pupil.needs()[0].key) < keys.index(pupil.key)
    assert len(keys) == 6


def test_an_arm_that_is_a_parent_too_keeps_its_weights(home: Home) -> None:
    some = {"far": {"encoding.gamma": 8.0}, "child": {"init": FromTrial(values={"encoding.gamma": 8.0}).plain()}}
    toy = conduct(home, arms(some, keep=()))
    assert len(toy.order) == 4


def test_a_diverged_parent_makes_its_children_diverged_untrained(home: Home) -> None:
    some = {"alone": {}, "child": {"init": FromTrial(values={"encoding.gamma": 30.0}).plain()}}
    edition = arms(some)
    toy = conduct(home, edition)
    children = {run.key for run in edition.arms()[1].runs(2)}
    assert not children & {run.key for run in toy.order}
    ended = [fact for fact in facts(home, edition, Ended) if fact.run in children]
    assert [fact.outcome for fact in ended] == ["diverged", "diverged"]
    assert Outcomes(home).of(ended[0].run)[0].outcome.reason == "its parent diverged"


def test_a_failed_parent_blocks_its_children_and_nothing_else(home: Home) -> None:
    edition = arms(STARTS)
    parent = edition.arms()[1].runs(1)[0].needs()[0].key
    toy = conduct(home, edition, max_concurrent=2, fails=lambda job, epoch: job.run.key == parent)
    assert len(facts(home, edition, Ended)) == 12 - 3
    assert [run.key for run in toy.order].count(parent) == 2
    assert len({run.key for run in conduct(home, edition).order}) == 3


@pytest.mark.parametrize("gamma", [1.0, 30.0])
def test_a_child_of_a_parent_by_older_code_trains_with_it_again(home: Home, other_code, gamma: float) -> None:
    """The parent completes, or diverges: today's code may give it other weights, or another end."""
    start = FromTrial(values={"encoding.gamma": gamma}).plain()
    edition = arms({"alone": {}, "child": {"encoding.gamma": 2.0, "init": start}}, seeds=1)
    alone, child = (arm.runs(1)[0] for arm in edition.arms())
    (parent,) = child.needs()
    conduct(home, arms({"alone": {}, "parent": {"encoding.gamma": gamma}}, name="before", seeds=1, keep=("weights",)))
    other_code()
    assert conduct(home, edition).order == [alone, parent, *([child] if gamma == 1.0 else [])]
    assert not any(fact.reused for fact in facts(home, edition, Ended))
