"""The driver on a toy engine: what a study asks is trained once, answered and kept."""

import pytest

from search_spaces.space import Choice, Real, Space
from search_spaces.study import Edition, Halving, Search
from service.storage.facts import Confirms, Ended, Planned, StoppedAt
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import conduct, measure
from trainables.recipe import Run


@pytest.mark.parametrize("edition", [search(), arms()], ids=["search", "ablation"])
def test_what_was_asked_is_trained_once_and_answered(home: Home, edition: Edition) -> None:
    toy = conduct(home, edition, max_concurrent=3)
    assert set(toy.trained.values()) == {1}
    ends = facts(home, edition, Ended)
    assert len({end.run for end in ends}) == len(ends)
    outcomes = Outcomes(home)
    for end in ends:
        assert outcomes.get(end.run, end.code).run.key == end.run
        assert outcomes.weights(end.run, end.code).exists() == (end.outcome == "completed")
    assert not list(home.study(edition.id).root.glob("work/*/*"))
    again = conduct(home, edition)
    assert not again.trained


def test_an_answer_holds_the_whole_curve(home: Home) -> None:
    edition = arms()
    conduct(home, edition, max_concurrent=2)
    run = edition.arms()[1].runs(2)[1]
    found = Outcomes(home).of(run.key)[0]
    expected = [measure(run, epoch).values["val/accuracy"] for epoch in range(1, 7)]
    assert [said.values["val/accuracy"] for said in found.outcome.curve] == expected
    assert found.environment == {"toy": 1}
    assert found.outcome.final["test/accuracy"] == expected[-1] - 0.01


def test_the_best_five_and_the_papers_point_are_confirmed_on_fresh_seeds(home: Home) -> None:
    edition = search(8, stop=None)
    toy = conduct(home, edition)
    confirms = facts(home, edition, Confirms)[-1].numbers
    assert len(confirms) in (5, 6)
    assert 0 in confirms
    fresh = [run for run in toy.order if run.seed >= 1000]
    assert sorted(run.seed for run in fresh) == sorted([1000, 1001] * len(confirms))
    planned = [fact.number for fact in facts(home, edition, Planned) if fact.role == "confirmation"]
    assert sorted(planned) == sorted(confirms)


def test_more_seeds_and_trials_run_only_what_is_missing(home: Home) -> None:
    conduct(home, search(6))
    before = {end.run for end in facts(home, search(6), Ended)}
    toy = conduct(home, search(9, seeds=3))
    assert not before & {run.key for run in toy.order}
    trials = [fact for fact in facts(home, search(6), Planned) if fact.role == "trial"]
    assert [fact.number for fact in trials] == list(range(9))
    assert not conduct(home, search(3, seeds=1)).trained


def test_a_study_that_keeps_nothing_keeps_nothing(home: Home) -> None:
    edition = arms(keep=())
    conduct(home, edition)
    assert not list(home.outcomes.glob("*/*.pt"))
    assert not conduct(home, arms(name="others", keep=())).trained


def test_a_run_at_its_last_epoch_is_completed_whoever_ended_it(home: Home) -> None:
    space = Space({"optimizer.epochs": Choice(options=(2, 6)), "encoding.gamma": Real(low=0.1, high=40, log=True)})
    edition = search()  # one of today may not stop where epochs are searched, one that is stored may
    plan = Search(space=space, trials=10, stop=Halving())
    edition = edition.model_copy(update={"study": edition.study.model_copy(update={"plan": plan})})
    conduct(home, edition)
    short = {run.key for run in _runs(home, edition) if run.recipe.optimizer.epochs == 2}
    assert short
    assert not short & {fact.run for fact in facts(home, edition, StoppedAt)}


def _runs(home: Home, edition: Edition) -> list[Run]:
    planned = [fact for fact in facts(home, edition, Planned) if fact.role == "trial"]
    return [run for fact in planned for run in edition.trial(fact.number, fact.values).runs(2)]
