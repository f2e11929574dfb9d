"""The driver and code that changed: older answers do not count unless they are adopted."""

from service.storage.facts import Adopted, Ended, FailedWith, Started, StoppedAt
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


def test_an_adopted_answer_that_is_gone_is_trained_once_by_todays_code(home: Home, other_code) -> None:
    edition = arms({"near": {"encoding.gamma": 1.0}}, seeds=1)
    conduct(home, edition)
    run, code = edition.arms()[0].runs(1)[0], facts(home, edition, Ended)[0].code
    other_code()
    other = arms({"near": {"encoding.gamma": 1.0}}, name="others", seeds=1)
    with driving(home, other, adopt=True) as driver:
        driver.journal.write(Adopted(run=run.key, code=code, instead_of=driver.codes(run.recipe).digest))
    Outcomes(home).path(run.key, code).unlink()
    toy = conduct(home, other)
    assert [one.key for one in toy.order] == [run.key]
    (started,), (ended,) = facts(home, other, Started), facts(home, other, Ended)
    assert started.code == ended.code == CodeDigests()(run.recipe).digest != code
    assert not conduct(home, other).trained


def test_answers_of_older_code_do_not_count(home: Home, other_code) -> None:
    edition = arms()
    conduct(home, edition)
    other_code()
    toy = conduct(home, edition)
    assert {run.recipe.encoding.kind for run in toy.order} == {"fourier"}
    assert len(toy.order) == 4
    assert len(Outcomes(home).of(toy.order[0].key)) == 2, "both answers stay"
    assert not conduct(home, edition).trained


def test_adopted_answers_count_and_stay_counted(home: Home, other_code) -> None:
    edition = arms()
    conduct(home, edition)
    other_code()
    assert not conduct(home, edition, options={"adopt": True}).trained
    assert len(facts(home, edition, Adopted)) == 4
    assert not conduct(home, edition).trained


def test_an_adoption_ends_with_the_next_edit(home: Home, other_code) -> None:
    edition = arms()
    first = conduct(home, edition)
    other_code()
    conduct(home, edition, options={"adopt": True})
    other_code(again=True)
    history = History.open(home, edition)
    assert (history.stale, any(map(history.adopts, first.order))) == (4, False)
    toy = conduct(home, edition)
    assert [run.recipe.encoding.kind for run in toy.order] == 4 * ["fourier"]
    assert not conduct(home, edition).trained


def test_where_todays_code_has_an_answer_none_is_adopted(home: Home, other_code) -> None:
    conduct(home, arms())
    other_code()
    conduct(home, arms())
    other = arms(name="others")
    assert not conduct(home, other, options={"adopt": True}).trained
    assert not facts(home, other, Adopted)


def test_what_cannot_be_adopted_is_trained_by_todays_code(home: Home, other_code) -> None:
    edition = arms()
    conduct(home, edition)
    old = edition.arms()[1].runs(1)[0]
    code = next(fact.code for fact in facts(home, edition, Ended) if fact.run == old.key)
    Outcomes(home).weights(old.key, code).unlink()
    other_code()
    toy = conduct(home, edition, options={"adopt": True})
    assert [run.key for run in toy.order] == [old.key]
    assert [fact.code for fact in facts(home, edition, Ended) if fact.run == old.key][-1] != code
    assert len(facts(home, edition, Adopted)) == 3


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
