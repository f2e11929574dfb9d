"""The driver and code that changed: older answers do not count."""

from service.storage.facts import Ended, FailedWith, StoppedAt
from service.storage.history import History
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import conduct, driving, measure, message
from trainables.recipe.code_digest import CodeDigests


def test_an_answer_by_other_code_than_planned_is_refused(home: Home) -> None:
    """Somebody edited a file between the plan and the import: the answer must not be stored as the old code's."""
    edition = arms()
    with driving(home, edition) as driver:
        job = driver.next()
        for epoch in range(1, 7):
            driver.on_result(job, message(measure(job.run, epoch), job) | {"code": "0" * 12})
        assert not driver.in_flight
    (failed,) = facts(home, edition, FailedWith)
    assert failed.reason == (
        "its code changed after this study was planned; run the study again to train with the new code"
    )
    assert failed.final
    assert not facts(home, edition, Ended)
    assert not Outcomes(home).of(job.run.key)


def test_answers_of_older_code_do_not_count(home: Home, other_code) -> None:
    edition = arms()
    conduct(home, edition)
    other_code()
    toy = conduct(home, edition)
    assert {run.recipe.encoding.kind for run in toy.order} == {"fourier"}
    assert len(toy.order) == 4
    assert len(Outcomes(home).of(toy.order[0].key)) == 2, "both answers stay"
    assert not conduct(home, edition).trained


def test_the_judge_hears_todays_code_only(home: Home, other_code) -> None:
    edition = search(6)
    conduct(home, edition)
    stopped = {fact.run for fact in facts(home, edition, StoppedAt)}
    before = len(facts(home, edition, StoppedAt))
    assert stopped
    other_code()
    conduct(home, edition)
    again = facts(home, edition, StoppedAt)[before:]
    assert {fact.run for fact in again} == stopped
    today = History(edition, lambda recipe: CodeDigests()(recipe).digest)
    assert {fact.code for fact in again} == {today.code(edition.trial(0, {}).runs(1)[0])}
