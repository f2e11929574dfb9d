"""The driver and answers that are there already: shared, judged, trained again for their weights."""

import random
from pathlib import Path

from service.planning.forecast import LOST
from service.results import Result
from service.storage.facts import Ended, FailedWith, Measured, Planned, StoppedAt
from service.storage.history import History
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms import toy
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import Toy, conduct, driving
from trainables.recipe.outcome import Measurement


def test_answers_are_shared_between_studies(home: Home) -> None:
    conduct(home, arms(), max_concurrent=2)
    other = arms({"near": {"encoding.gamma": 1.0}, "peg": {"encoding.kind": "peg"}}, name="others")
    toy = conduct(home, other)
    assert {run.recipe.encoding.kind for run in toy.order} == {"peg"}
    reused = [end for end in facts(home, other, Ended) if end.reused]
    assert len(reused) == 2
    for end in reused:
        said = [fact for fact in facts(home, other, Measured) if fact.run == end.run]
        assert [fact.epoch for fact in said] == [1, 2, 3, 4, 5, 6]


def test_a_reused_answer_is_judged_as_if_it_were_trained(tmp_path: Path) -> None:
    alone, after = Home(tmp_path / "alone"), Home(tmp_path / "after")
    edition = search(9)
    conduct(alone, edition)
    points = {str(fact.number): fact.values for fact in facts(alone, edition, Planned) if fact.role == "trial"}
    conduct(after, arms(points))
    toy = conduct(after, edition)
    assert {run.seed for run in toy.order} <= {1000, 1001}
    stops = [{fact.run: fact.epoch for fact in facts(home, edition, StoppedAt)} for home in (alone, after)]
    assert stops[0] == stops[1]
    assert stops[0]
    assert not stops[1].keys() & {fact.run for fact in facts(after, edition, Ended)}


def test_weights_that_are_gone_are_trained_again_and_added(home: Home) -> None:
    edition, other = arms(), arms(name="others")
    conduct(home, edition)
    run = edition.arms()[0].runs(1)[0]
    outcomes, code = Outcomes(home), facts(home, edition, Ended)[0].code
    before = outcomes.get(run.key, code)
    outcomes.weights(run.key, code).unlink()
    toy = conduct(home, other)
    assert {one.key for one in toy.order} == {run.key}
    assert outcomes.has_sound_weights(run.key, code)
    after = outcomes.get(run.key, code)
    assert after.model_copy(update={"weights": before.weights}) == before, "the rest of an answer is written once"


def test_other_numbers_take_the_place_of_an_answer_without_weights(home: Home, monkeypatch) -> None:
    first, other = arms(), arms(name="others")
    conduct(home, first)
    key, code = facts(home, first, Ended)[0].run, facts(home, first, Ended)[0].code
    outcomes, old = Outcomes(home), Outcomes(home).path(key, code).read_bytes()
    before = outcomes.get(key, code)
    outcomes.weights(key, code).unlink()
    outcomes.probe(key, code, "position").write_bytes(b"what a probe found in the model that is gone")
    measure = toy.measure
    monkeypatch.setattr(toy, "measure", lambda run, epoch: raised(measure(run, epoch)))
    with driving(home, other) as driver:
        assert [run.key for run in Toy(driver, random.Random(0)).drive().order] == [key]
        assert driver.replaced == [key]
    assert not facts(home, other, FailedWith)
    new = outcomes.get(key, code, whole=True)
    assert new.outcome.final["val/accuracy"] == before.outcome.final["val/accuracy"] + 0.125
    assert outcomes.path(key, code).with_name(f"{code}.json.damaged").read_bytes() == old
    assert not outcomes.probe(key, code, "position").exists(), "it is of the other model"
    assert not conduct(home, other).trained

    shown = Result.open(home, first.id).rows[0]
    assert shown.runs[0].curve == before.curve, "all of one training"
    assert shown.runs[0].answered is None
    assert [*shown.weights] == [1], "nor the model of the other one"
    assert not conduct(home, first).trained
    assert [fact.reason for fact in facts(home, first, FailedWith)] == [LOST]
    shown = Result.open(home, first.id).rows[0]
    assert shown.runs[0].answered == new
    assert History.open(home, first).states[key, code].values == new.curve
    conduct(home, first)
    assert len(facts(home, first, FailedWith)) == 1, "once"


def test_an_answer_counts_for_a_study_that_had_begun_the_run_itself(home: Home, monkeypatch) -> None:
    """The epochs that it measured stay, and the last one, which has the scores, is the answer's."""
    conduct(home, arms(), cut=3)
    measure = toy.measure
    monkeypatch.setattr(toy, "measure", lambda run, epoch: raised(measure(run, epoch)))
    conduct(home, arms(name="others"))
    assert not conduct(home, arms()).trained
    run = Result.open(home, arms().id).rows[0].runs[0]
    assert run.state.values[1] != run.curve[1]
    assert run.curve == run.answered.curve
    assert not facts(home, arms(), FailedWith)
    conduct(home, arms())
    assert not facts(home, arms(), FailedWith)


def raised(said: Measurement) -> Measurement:
    return said.model_copy(update={"values": {name: value + 0.125 for name, value in said.values.items()}})
