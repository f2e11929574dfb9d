"""Room: a study whose runs all fail alike ends, and one that gets on does not."""

import random

from service.execution.driver import SAME, RepeatedFailure
from service.execution.watchdog import Watchdog
from service.storage.facts import Ended, FailedWith
from service.storage.home import Home
from tests.rooms.service.execution.studies import arms, facts
from tests.rooms.toy import Toy, driving
from trainables.launch.errors import LOST

MANY = {f"wave {number}": {"encoding.gamma": 1.0 + number} for number in range(20)}


def test_a_study_ends_after_failures_in_a_row_and_the_next_command_tries_again(home: Home) -> None:
    edition = arms(MANY)
    with driving(home, edition) as driver:
        Toy(driver, random.Random(0), fails=lambda job, epoch: True).drive()
        assert driver.repeated.reason == "the worker died"
    assert len(facts(home, edition, FailedWith)) == SAME
    with driving(home, edition) as driver:
        Toy(driver, random.Random(0)).drive()
        assert driver.repeated.reason is None
    assert len(facts(home, edition, Ended)) == 40


def test_one_answer_between_begins_the_count_anew(home: Home) -> None:
    edition = arms(MANY)
    with driving(home, edition) as driver:
        Toy(driver, random.Random(0), fails=lambda job, epoch: int(job.label) % 3 != 0).drive()
        assert driver.repeated.reason is None
    assert len(facts(home, edition, Ended)) == 2 * 7


def test_other_reasons_are_counted_by_themselves() -> None:
    failures = RepeatedFailure()
    for number in range(3 * SAME):
        failures.failed(f"reason {number % 2}", lost=False)
    assert failures.reason is None


def test_nodes_that_are_lost_end_a_study_only_where_it_does_not_get_on() -> None:
    failures = RepeatedFailure()
    for _ in range(3 * SAME):
        failures.failed(LOST, lost=True)
        failures.progress(answered=False)
    assert failures.reason is None
    for _ in range(SAME):
        failures.failed(LOST, lost=True)
    assert failures.reason == LOST


def test_runs_whose_own_time_is_over_do_not_count() -> None:
    failures, dog = RepeatedFailure(), Watchdog(run_hours=0.0)
    dog.begin("run")
    for _ in range(2 * SAME):
        failures.failed(dog.overdue("run"), lost=False)
    assert failures.reason is None


def test_an_epoch_trained_does_not_excuse_an_error_in_the_next() -> None:
    failures = RepeatedFailure()
    for _ in range(SAME):
        failures.progress(answered=False)
        failures.failed("KeyError: 'x' (mine.py, line 3)", lost=False)
    assert failures.reason is not None
