"""The driver when a run fails: tried twice, a lost node not counted, the rest done without it."""

from service.storage.facts import Confirms, Ended, FailedWith
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import conduct, driving, measure, message


def test_weights_that_do_not_reach_the_drivers_disk_are_a_failure(home: Home) -> None:
    edition = arms()
    with driving(home, edition) as driver:
        job = driver.next()
        for epoch in range(1, 7):
            driver.on_result(job, message(measure(job.run, epoch), job))
    (failed,) = facts(home, edition, FailedWith)
    assert failed.reason.endswith("all nodes must share the folder of --home, or --storage must be given")
    assert not Outcomes(home).of(job.run.key)


def test_a_failing_run_is_tried_twice_and_left_to_the_next_command(home: Home) -> None:
    edition = arms()
    bad = edition.arms()[1].runs(2)[0].key
    toy = conduct(home, edition, fails=lambda job, epoch: job.run.key == bad and epoch == 3)
    assert [run.key for run in toy.order].count(bad) == 2
    assert len(facts(home, edition, Ended)) == 5
    assert [fact.reason for fact in facts(home, edition, FailedWith)] == ["the worker died"] * 2
    again = conduct(home, edition)
    assert {run.key for run in again.order} == {bad}
    assert len(facts(home, edition, Ended)) == 6


def test_a_lost_node_is_no_attempt(home: Home) -> None:
    edition = arms()
    with driving(home, edition) as driver:
        for attempt in range(1, 6):
            job = driver.next()
            assert (job.run, job.attempt) == (edition.arms()[0].runs(1)[0], attempt)
            driver.on_failure(job, reason="the node is gone", lost=True)


def test_the_confirmation_is_done_without_a_trial_that_failed(home: Home) -> None:
    edition = search(6)
    bad = edition.trial(0, {"encoding.gamma": 2.5}).runs(1)[0].key
    conduct(home, edition, fails=lambda job, epoch: job.run.key == bad)
    assert 0 not in facts(home, edition, Confirms)[-1].numbers
