"""Room: an answer whose file is gone or was cut is trained again, with the same numbers, and nothing else is."""

import random
import shutil

import pytest

from search_spaces.study import Edition
from service.analysis.study_status import one_status
from service.planning.estimate import estimate_work
from service.planning.forecast import LOST
from service.planning.placement import Placement
from service.storage.facts import Ended, FailedWith
from service.storage.history import History, ancestors
from service.storage.home import Home
from service.storage.outcomes import Answered, Outcomes
from tests.rooms import toy
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import CutError, Toy, conduct, driving
from trainables.recipe import FromTrial
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.outcome import Measurement
from trainables.whole_files import unsealed


def cut(path, share: float | None) -> None:
    whole = path.read_bytes()
    path.unlink() if share is None else path.write_bytes(whole[: int(share * len(whole))])


@pytest.mark.parametrize("study", [arms, search])
def test_a_lost_answer_is_trained_again_and_comes_out_the_same(tmp_path, study) -> None:
    edition, driven = study(), Home(tmp_path / "driven")
    conduct(driven, edition)
    for number, share in enumerate((None, 0.0, 0.5, 0.99)):
        copy = Home(tmp_path / str(number))
        shutil.copytree(driven.root, copy.root)
        is_trained_again(copy, edition, share)


def is_trained_again(home: Home, edition: Edition, share: float | None) -> None:
    outcomes = Outcomes(home)
    lost = facts(home, edition, Ended)[1]
    before = outcomes.get(lost.run, lost.code)
    means = [row.mean for row in one_status(home, edition.id).rows]
    cut(outcomes.path(lost.run, lost.code), share)
    assert outcomes.get(lost.run, lost.code) is None
    codes = CodeDigests()
    plan = estimate_work(History.open(home, edition, codes), outcomes, Placement(max_concurrent=2), codes)
    assert plan.missing == 1
    toy = conduct(home, edition)
    assert [run.key for run in toy.order] == [lost.run]
    assert outcomes.get(lost.run, lost.code).repeats(before)
    assert [row.mean for row in one_status(home, edition.id).rows] == means
    aside = {path.name.partition(".")[2] for path in outcomes.path(lost.run, lost.code).parent.glob("*.damaged")}
    assert aside == ({"json.damaged", "pt.damaged"} if share is not None else set()), "nothing tells what weights were"
    assert conduct(home, edition).order == [], "once"


def test_another_study_does_not_stumble_over_it(home: Home) -> None:
    conduct(home, arms())
    lost = facts(home, arms(), Ended)[0]
    cut(Outcomes(home).path(lost.run, lost.code), 0.5)
    toy = conduct(home, arms(name="others"))
    assert [run.key for run in toy.order] == [lost.run]


START = FromTrial(values={"data.task": "absolute"}).plain()
CHILD = {"encoding.gamma": 1.0, "init": START}


def chained() -> Edition:
    """A child of a parent of a parent."""
    later = FromTrial(values=CHILD).plain()
    return arms({"child": CHILD, "grandchild": {"encoding.gamma": 1.5, "init": later}}, seeds=1)


def changed(path) -> None:
    """A bit of the middle, which neither the size nor the end of a file shows."""
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 1
    path.write_bytes(whole)


@pytest.mark.parametrize("spoil", [0.0, 0.5, 0.99, None, changed], ids=["emptied", "half", "99 %", "gone", "a bit"])
def test_a_parent_without_its_weights_is_trained_again_before_its_child(home: Home, spoil) -> None:
    with driving(home, chained()) as driver:
        toy = Toy(driver, random.Random(0), cut=6)  # an epoch after the first parent has ended
        with pytest.raises(CutError):
            toy.drive()
    outcomes = Outcomes(home)
    parent = next(fact for fact in facts(home, chained(), Ended))
    before = outcomes.get(parent.run, parent.code)
    weights = outcomes.weights(parent.run, parent.code)
    changed(weights) if spoil is changed else cut(weights, spoil)
    again = conduct(home, chained())
    assert next(run.key for run in again.order) == parent.run
    assert outcomes.get(parent.run, parent.code).repeats(before)
    assert outcomes.has_sound_weights(parent.run, parent.code)
    assert weights.with_name(f"{weights.name}.damaged").exists() == (spoil is not None)
    assert conduct(home, chained()).order == [], "once"


def test_what_a_lost_parent_itself_starts_from_is_trained_first(home: Home) -> None:
    edition = chained()
    conduct(home, edition)
    outcomes = Outcomes(home)
    parents = [run for run in History.open(home, edition)._everyone() for run in ancestors(run)]
    kept = [fact for fact in facts(home, edition, Ended) if fact.run in {run.key for run in parents}]
    assert len(kept) == 2
    for fact in kept:
        outcomes.weights(fact.run, fact.code).unlink()
    assert conduct(home, edition).order == [], "nobody needs them any more"
    grandchild = facts(home, edition, Ended)[-1]
    assert grandchild.run not in {run.key for run in parents}
    outcomes.path(grandchild.run, grandchild.code).unlink()
    again = conduct(home, edition)
    assert [run.key for run in again.order] == [kept[0].run, kept[1].run, grandchild.run]


def test_a_lost_parent_that_comes_out_with_other_numbers_gives_way(home: Home, monkeypatch) -> None:
    """The old numbers would stand beside weights that never had them."""
    with driving(home, chained()) as driver, pytest.raises(CutError):
        Toy(driver, random.Random(0), cut=6).drive()
    parent = next(fact for fact in facts(home, chained(), Ended))
    Outcomes(home).weights(parent.run, parent.code).unlink()
    before = toy.measure
    monkeypatch.setattr(toy, "measure", lambda run, epoch: other(before(run, epoch)))
    with driving(home, chained()) as driver:
        Toy(driver, random.Random(0)).drive()
        assert driver.replaced == [parent.run]
    assert [fact.reason for fact in facts(home, chained(), FailedWith)] == [LOST]
    new, (path,) = Outcomes(home).get(parent.run, parent.code), home.outcomes.glob(f"{parent.run}/*.json.damaged")
    assert not new.repeats(Answered.read_text(unsealed(path.read_bytes()).decode()))
    assert History.open(home, chained()).states[parent.run, parent.code].curve[1].values == new.outcome.curve[0].values


def test_a_lost_answer_counts_as_it_comes_out_again(home: Home, monkeypatch) -> None:
    conduct(home, arms())
    lost = facts(home, arms(), Ended)[1]
    Outcomes(home).path(lost.run, lost.code).unlink()
    before = toy.measure
    monkeypatch.setattr(toy, "measure", lambda run, epoch: other(before(run, epoch)))
    conduct(home, arms())
    kept = Outcomes(home).get(lost.run, lost.code)
    state = History.open(home, arms()).states[lost.run, lost.code]
    assert [m.values for m in kept.outcome.curve] == [epoch.values for epoch in state.curve.values()]
    assert kept.outcome.curve[0].values["val/accuracy"] == before(kept.run, 1).values["val/accuracy"] + 0.125


def other(said: Measurement) -> Measurement:
    return said.model_copy(update={"values": {name: value + 0.125 for name, value in said.values.items()}})
