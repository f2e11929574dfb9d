"""The driver on a toy engine: what is asked is trained once, answered and kept, whatever fails or is asked for."""

import random

import pytest

from search_spaces.space import Choice, Real, Space
from search_spaces.study import Edition, Halving, Search
from service.execution.driver import SAME, Driver, RepeatedFailure
from service.execution.signals import Control, ask_driver
from service.execution.watchdog import Watchdog
from service.planning.placement import Placement
from service.storage import editions
from service.storage.facts import Confirms, Counts, Ended, FailedWith, Planned, Started, StoppedAt
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import Journal
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import Asked, arms, facts, search
from tests.rooms.toy import Toy, conduct, driving, measure, message
from trainables.launch.errors import LOST
from trainables.recipe import FromTrial


@pytest.mark.parametrize("edition", [search(), arms()], ids=["search", "ablation"])
def test_what_was_asked_is_trained_once_and_answered(home: Home, edition: Edition) -> None:
    toy = conduct(home, edition, max_concurrent=3)
    assert set(toy.trained.values()) == {1}
    ends, outcomes = facts(home, edition, Ended), Outcomes(home)
    assert len({end.run for end in ends}) == len(ends)
    for end in ends:
        assert outcomes.get(end.run, end.code).run.key == end.run
        assert outcomes.weights(end.run, end.code).exists() == (end.outcome == "completed")
    assert not list(home.study(edition.id).root.glob("work/*/*"))
    assert not conduct(home, edition).trained


def test_an_answer_holds_the_whole_curve(home: Home) -> None:
    conduct(home, arms(), max_concurrent=2)
    run = arms().arms()[1].runs(2)[1]
    (answer,) = Outcomes(home).of(run.key)
    expected = [measure(run, epoch).values["val/accuracy"] for epoch in range(1, 7)]
    assert [epoch.values["val/accuracy"] for epoch in answer.outcome.curve] == expected
    assert answer.environment == {"toy": 1}
    assert answer.outcome.final["test/accuracy"] == expected[-1] - 0.01


def test_more_seeds_and_trials_run_only_what_is_missing(home: Home) -> None:
    conduct(home, search(6))
    before = {end.run for end in facts(home, search(6), Ended)}
    assert not before & {run.key for run in conduct(home, search(9, seeds=3)).order}
    trials = [fact.number for fact in facts(home, search(6), Planned) if fact.role == "trial"]
    assert trials == list(range(9))
    assert not conduct(home, search(3, seeds=1)).trained


def test_a_study_that_keeps_nothing_keeps_nothing(home: Home) -> None:
    conduct(home, arms(keep=()))
    assert not list(home.outcomes.glob("*/*.pt"))
    assert not conduct(home, arms(name="others", keep=())).trained


def test_a_run_at_its_last_epoch_is_completed_whoever_ended_it(home: Home) -> None:
    space = Space({"optimizer.epochs": Choice(options=(2, 6)), "encoding.gamma": Real(low=0.1, high=40, log=True)})
    edition = search()  # one of today may not stop where epochs are searched, one that is stored may
    plan = Search(space=space, trials=10, stop=Halving())
    edition = edition.model_copy(update={"study": edition.study.model_copy(update={"plan": plan})})
    conduct(home, edition)
    trials = [edition.trial(fact.number, fact.values) for fact in facts(home, edition, Planned) if fact.role == "trial"]
    short = {run.key for trial in trials for run in trial.runs(2) if run.recipe.optimizer.epochs == 2}
    assert short
    assert not short & {fact.run for fact in facts(home, edition, StoppedAt)}


def test_answers_of_older_code_do_not_count(home: Home, other_code) -> None:
    conduct(home, arms())
    other_code()
    toy = conduct(home, arms())
    assert [run.recipe.encoding.kind for run in toy.order] == ["fourier"] * 4
    assert len(Outcomes(home).of(toy.order[0].key)) == 2, "both answers stay"
    assert not conduct(home, arms()).trained


def test_the_judge_hears_todays_code_only(home: Home, other_code) -> None:
    edition = search(6)
    conduct(home, edition)
    before = facts(home, edition, StoppedAt)
    assert before
    other_code()
    conduct(home, edition)
    again = facts(home, edition, StoppedAt)[len(before) :]
    assert {fact.run for fact in again} == {fact.run for fact in before}
    today = History(edition)
    assert {fact.code for fact in again} == {today.code(edition.trial(0, {}).runs(1)[0])}


def test_weights_that_do_not_reach_the_drivers_disk_are_a_failure(home: Home) -> None:
    with driving(home, arms()) as driver:
        job = driver.next()
        for epoch in range(1, 7):
            driver.on_result(job, message(measure(job.run, epoch), job))
    (failed,) = facts(home, arms(), FailedWith)
    assert failed.reason.endswith("all nodes must share the folder of --home, or --storage must be given")
    assert not Outcomes(home).of(job.run.key)


def test_a_failing_run_is_tried_twice_and_left_to_the_next_command(home: Home) -> None:
    edition = arms()
    bad = edition.arms()[1].runs(2)[0].key
    toy = conduct(home, edition, fails=lambda job, epoch: job.run.key == bad and epoch == 3)
    assert [run.key for run in toy.order].count(bad) == 2
    assert len(facts(home, edition, Ended)) == 5
    assert [fact.reason for fact in facts(home, edition, FailedWith)] == ["the worker died"] * 2
    assert {run.key for run in conduct(home, edition).order} == {bad}
    assert len(facts(home, edition, Ended)) == 6


def test_a_lost_node_is_no_attempt(home: Home) -> None:
    with driving(home, arms()) as driver:
        for attempt in range(1, 6):
            job = driver.next()
            assert (job.run, job.attempt) == (arms().arms()[0].runs(1)[0], attempt)
            driver.on_failure(job, reason="the node is gone", lost=True)


def test_the_confirmation_is_done_without_a_trial_that_failed(home: Home) -> None:
    edition = search(6)
    bad = edition.trial(0, {"encoding.gamma": 2.5}).runs(1)[0].key
    conduct(home, edition, fails=lambda job, epoch: job.run.key == bad)
    assert 0 not in facts(home, edition, Confirms)[-1].numbers


MANY = {f"wave {number}": {"encoding.gamma": 1.0 + number} for number in range(20)}


@pytest.mark.parametrize(
    ("fails", "reason", "failures", "ends"),
    [(lambda job: True, "the worker died", SAME, 0), (lambda job: int(job.label) % 3 != 0, None, 2 * 26, 2 * 7)],
    ids=["all", "all but each third"],
)
def test_a_study_ends_after_failures_in_a_row_and_the_next_command_tries_again(home, fails, reason, failures, ends):
    """One answer between them begins the count anew."""
    for attempt in (1, 2):
        with driving(home, arms(MANY)) as driver:
            fail = (lambda job, epoch: fails(job)) if attempt == 1 else (lambda job, epoch: False)
            Toy(driver, random.Random(0), fails=fail).drive()
            assert driver.repeated.reason == (reason if attempt == 1 else None)
        assert len(facts(home, arms(MANY), FailedWith)) == failures
        assert len(facts(home, arms(MANY), Ended)) == (ends if attempt == 1 else 40)


def test_failures_are_counted_by_their_reason_and_lost_nodes_only_without_progress() -> None:
    def counted(*reasons: str, between: bool = False) -> str | None:
        failures = RepeatedFailure()
        for reason in reasons:
            failures.failed(reason, lost=reason == LOST)
            if between:
                failures.progress(answered=False)
        return failures.reason

    dog = Watchdog(run_hours=0.0)
    dog.begin("run")
    assert counted(*["one", "other"] * SAME) is None
    assert counted(*[LOST] * 3 * SAME, between=True) is None
    assert counted(*[LOST] * SAME) == LOST
    assert counted(*["KeyError: 'x'"] * SAME, between=True) == "KeyError: 'x'", "an epoch does not excuse an error"
    assert counted(*[dog.overdue("run")] * 2 * SAME) is None, "a run whose own time is over"


def test_what_is_asked_before_the_driver_begins_is_done(home: Home) -> None:
    """The lock is held from here on, so that another command is told that its request will be heard."""
    folder = home.study(arms().id)
    with Journal(folder.journal, folder.lock) as journal:
        editions.save_edition(arms(), home)
        driver = Driver(arms(), home, journal, Placement(max_concurrent=1))
        ask_driver(folder, Control(seeds=4, stop="after the epoch"))
        driver.begin()
        assert driver.heed() == Control(seeds=4, stop="after the epoch")
        assert (driver.history.seeds, driver.stop.asked) == (4, True)


def test_more_seeds_are_trained_by_the_driver_that_runs(home: Home) -> None:
    with driving(home, arms()) as driver:
        Asked(driver, {3: Control(seeds=4)}).drive()
    assert len(facts(home, arms(), Ended)) == 3 * 4
    assert [fact.seeds for fact in facts(home, arms(), Counts)] == [2, 4]


def test_more_trials_too_and_counts_never_fall(home: Home) -> None:
    with driving(home, search(trials=6, stop=None)) as driver:
        Asked(driver, {3: Control(trials=9), 5: Control(trials=4, seeds=1)}).drive()
        assert len(driver.history.of("trial")) == 9
        assert driver.history.seeds == 2


@pytest.mark.parametrize(("before", "requested", "most", "begun"), [
    (2, None, 2, [2] * 6),
    (2, 3, 3, [2] * 2 + [3] * 4),
    (3, 1, 3, [3] * 3 + [1] * 3),
])  # fmt: skip
def test_runs_at_once_change_in_both_directions(home: Home, before, requested, most, begun) -> None:
    with driving(home, arms()) as driver:
        driver.placement = Placement(max_concurrent=before)
        requests = {1: Control(max_concurrent=requested)} if requested else {}
        assert Asked(driver, requests, max_concurrent=8).drive().most == most
    assert [fact.placement["max_concurrent"] for fact in facts(home, arms(), Started)] == begun


def test_a_stop_ends_each_run_at_its_report(home: Home) -> None:
    with driving(home, arms()) as driver:
        Asked(driver, {2: Control(stop="after the epoch")}, max_concurrent=2).drive()
        assert driver.stop.asked
    assert not facts(home, arms(), Ended)


ABSOLUTE = {"data.task": "absolute", "optimizer.lr": 0.001}
STARTS = {
    "alone": {},
    "first": {"encoding.gamma": 1.0, "init": FromTrial(values={"data.task": "absolute"}).plain()},
    "second": {"encoding.gamma": 1.0, "optimizer.lr": 0.01, "init": FromTrial(values=ABSOLUTE).plain()},
    "third": {"encoding.gamma": 1.0, "init": FromTrial(values={"data.task": "direction4"}).plain()},
}
"""The first and the second share a parent."""
TEACHER = {"kind": "from_trial", "values": {"encoding.kind": "peg"}}
TAUGHT = {"alone": {}, "taught": {"model.pool": "distilled", "teacher": TEACHER}}


@pytest.mark.parametrize(
    ("values", "keep", "names", "runs"),
    [
        (STARTS, ("weights",), ["data.task=absolute", "data.task=direction4"], 12),
        (STARTS, (), ["data.task=absolute", "data.task=direction4"], 12),
        (TAUGHT, ("weights",), ["teacher: peg on direction"], 6),
    ],
    ids=["starts", "starts whose weights go", "a teacher"],
)
def test_parents_come_first_and_shared_ones_once(home: Home, values, keep, names, runs) -> None:
    edition = arms(values, keep=keep)
    keys = [run.key for run in conduct(home, edition, max_concurrent=3).order]
    assert len(keys) == len(set(keys)) == runs
    parents = [fact for fact in facts(home, edition, Planned) if fact.role == "parent"]
    assert [fact.number for fact in parents] == [*range(1, len(names) + 1)]
    assert values is STARTS or [fact.name for fact in parents] == names
    for arm in edition.arms()[1:]:
        for run in arm.runs(2):
            assert all(keys.index(parent.key) < keys.index(run.key) for parent in run.needs())


def test_an_arm_that_is_a_parent_too_keeps_its_weights(home: Home) -> None:
    child = {"init": FromTrial(values={"encoding.gamma": 8.0}).plain()}
    assert len(conduct(home, arms({"far": {"encoding.gamma": 8.0}, "child": child}, keep=())).order) == 4


def test_a_diverged_parent_makes_its_children_diverged_untrained(home: Home) -> None:
    edition = arms({"alone": {}, "child": {"init": FromTrial(values={"encoding.gamma": 30.0}).plain()}})
    toy = conduct(home, edition)
    children = {run.key for run in edition.arms()[1].runs(2)}
    assert not children & {run.key for run in toy.order}
    ended = [fact for fact in facts(home, edition, Ended) if fact.run in children]
    assert [fact.outcome for fact in ended] == ["diverged", "diverged"]
    assert Outcomes(home).of(ended[0].run)[0].outcome.reason == "its parent diverged"


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
