"""The driver and answers that are there already: shared, judged, trained again for their weights."""

import json
from pathlib import Path

from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import Adopted, Ended, FailedWith, Measured, Planned, StoppedAt
from service.storage.outcomes import Outcomes
from service.storage.whole_files import sealed
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import conduct
from trainables.recipe import Run


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


def without_weights(home: Home, environment: dict) -> tuple[Run, str]:
    """The first run of `arms()`, answered without weights, with a number and an environment of its own."""
    edition = arms()
    conduct(home, edition)
    run = edition.arms()[0].runs(1)[0]
    outcomes, code = Outcomes(home), facts(home, edition, Ended)[0].code
    outcomes.weights(run.key, code).unlink()
    known = json.loads(outcomes.path(run.key, code).read_text())
    known["outcome"]["curve"][2]["values"]["val/accuracy"] += 1e-6
    known["environment"] = environment
    del known["digest"]
    outcomes.path(run.key, code).write_bytes(sealed(known))
    return run, code


def test_other_numbers_in_an_equal_environment_fail_once_and_name_the_way_out(home: Home) -> None:
    run, code = without_weights(home, {"toy": 1, "commit": "an older one"})
    other = arms(name="others")
    conduct(home, other)
    (failed,) = facts(home, other, FailedWith)
    assert failed.reason == (
        f"trained again for its weights, it gave other numbers in an equal environment (locus rerun {run.key} shows "
        "which); --adopt keeps the new answer beside the old one"
    )
    assert not Outcomes(home).weights(run.key, code).exists()
    assert len(Outcomes(home).of(run.key)) == 1
    conduct(home, other, options={"adopt": True})
    assert len(facts(home, other, FailedWith)) == 1
    assert [one.number for one in Outcomes(home).of(run.key)] == [1, 2]
    assert len(facts(home, other, Ended)) == 6


def test_other_numbers_from_another_environment_are_kept_beside_the_old_answer(home: Home) -> None:
    run, code = without_weights(home, {"toy": 0})
    before = Outcomes(home).path(run.key, code).read_text()
    other = arms(name="others")
    toy = conduct(home, other)
    assert [one.key for one in toy.order] == [run.key]
    assert not facts(home, other, FailedWith)
    old, new = Outcomes(home).of(run.key)
    assert Outcomes(home).path(run.key, code).read_text() == before, "an answer is written once"
    assert (old.name, new.name) == (code, f"{code}~2")
    assert Outcomes(home).weights(run.key, new.name).exists()
    (adopted,) = facts(home, other, Adopted)
    assert (adopted.run, adopted.code, adopted.again) == (run.key, new.name, True)
    history = History.open(home, other)
    assert history.state(run).status == "completed"
    assert history.state(run).value("val/accuracy") == new.outcome.final["val/accuracy"]
    assert not conduct(home, other).trained
    assert not conduct(home, arms(name="third")).trained, "another study takes the answer that has its weights"


def test_a_later_answer_stops_counting_when_the_code_changes(home: Home, other_code) -> None:
    run, _ = without_weights(home, {"toy": 0})
    other = arms({"near": {"encoding.gamma": 1.0}, "none": {"encoding.kind": "none"}}, name="others")
    conduct(home, other)
    assert run.recipe.encoding.kind == "none"
    child = arms({"far": {"encoding.gamma": 8.0}, "near": {"encoding.gamma": 1.0}}, name="fourier")
    conduct(home, child)
    other_code()
    keys = {one.key for one in conduct(home, other).order}
    assert run.key not in keys, "only the code of Fourier features changed"
    assert keys == {one.key for one in other.arms()[0].runs(2)}
