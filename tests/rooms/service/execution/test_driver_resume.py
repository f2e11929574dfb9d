"""The driver after a kill, a crash or a stop, and answers that are there already, are lost or were damaged."""

import json
import random
import shutil
from pathlib import Path

import pytest

from search_spaces.study import Edition
from service.analysis.study_status import one_status
from service.execution.driver import FINISHED, Stop
from service.planning.estimate import estimate_work
from service.planning.forecast import LOST
from service.planning.placement import Placement
from service.results import Result
from service.storage.facts import Ended, FailedWith, Measured, Planned, Started, StoppedAt
from service.storage.history import History, ancestors
from service.storage.home import Home
from service.storage.outcomes import Answered, Outcomes
from tests.rooms import toy as engine
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import CutError, Toy, conduct, driving, measure, message
from trainables.recipe import FromTrial
from trainables.whole_files import unsealed


def lines_of(home: Home, edition: Edition) -> tuple[Path, list[str]]:
    """The journal, and its lines."""
    path = home.study(edition.id).journal
    return path, path.read_text().splitlines(keepends=True)


@pytest.mark.parametrize("cut", [1, 3, 7, 8, 20, 31])
def test_a_killed_study_goes_on_where_it_stood(home: Home, cut: int) -> None:
    assert conduct(home, arms(), 1, max_concurrent=2, cut=cut) is None
    toy = conduct(home, arms(), 2, max_concurrent=2)
    ends = facts(home, arms(), Ended)
    assert len(ends) == len({end.run for end in ends}) == 6
    attempts = {fact.run: fact.attempt for fact in facts(home, arms(), Started)}
    assert len([run.key for run in toy.order if attempts[run.key] > 1]) <= 2
    for end in ends:
        (answer,) = Outcomes(home).of(end.run)
        for epoch in answer.outcome.curve:
            expected = measure(answer.run, epoch.epoch).values["val/accuracy"]
            assert epoch.values["val/accuracy"] == expected


def test_a_resumed_run_takes_its_checkpoint_into_a_folder_of_its_own(home: Home) -> None:
    with driving(home, arms()) as driver:
        job = driver.next()
        (Path(job.folder) / "checkpoint.pt").write_text("3")
        driver.on_result(job, message(measure(job.run, 1), job))
    with driving(home, arms()) as driver:
        again = driver.next()
        assert (again.run, again.attempt) == (job.run, 2)
        assert again.folder != job.folder
        assert (Path(again.folder) / "checkpoint.pt").read_text() == "3"
        toy = Toy(driver, random.Random(0))
        toy.workers[again.run.key] = (again, toy._train(again))
        toy.drive()
    assert min(epoch for key, epoch in toy.trained if key == job.run.key) == 4


def test_a_stopped_driver_gives_nothing_and_each_run_ends_at_its_next_report(home: Home) -> None:
    stop = Stop()
    with driving(home, arms(), stop=stop) as driver:
        toy = Toy(driver, random.Random(0), max_concurrent=2)
        for _ in range(3):
            toy._fill()
            toy._advance(sorted(toy.workers)[0])
        stop.asked = True
        assert driver.next() is FINISHED
        toy.drive()
        assert not driver.in_flight.jobs
    assert len(list(home.study(arms().id).root.glob("work/*/*/*/checkpoint.pt"))) == 2
    assert set(conduct(home, arms()).trained.values()) == {1}


def test_arms_that_were_lost_in_a_crash_are_listed(home: Home) -> None:
    edition, calm = arms(), arms(name="calm")
    with driving(home, edition) as driver:
        driver.next()
    path, lines = lines_of(home, edition)
    planned = [number for number, line in enumerate(lines) if '"planned"' in line]
    assert len(planned) == 3
    path.write_text("".join(lines[: planned[2]]))
    conduct(home, edition)
    conduct(home, calm)
    listed = [(fact.number, fact.name) for fact in facts(home, edition, Planned)]
    assert listed == [(0, "none"), (1, "near"), (2, "far")]
    assert [end.run for end in facts(home, edition, Ended)] == [end.run for end in facts(home, calm, Ended)]


def test_a_decision_that_was_not_written_is_taken_again(home: Home) -> None:
    edition = search(6)
    conduct(home, edition)
    path, lines = lines_of(home, edition)
    stop = next(number for number, line in enumerate(lines) if '"fact":"stopped"' in line)
    shutil.rmtree(home.outcomes)
    path.write_text("".join(lines[:stop]))
    with driving(home, edition):
        pass
    opened, again = (json.loads(line) for line in lines_of(home, edition)[1][stop : stop + 2])
    assert opened["fact"] == "opened"
    assert {**json.loads(lines[stop]), "time": 0, "by": 2, "sum": ""} == {**again, "time": 0, "sum": ""}


def test_an_answer_without_its_ended_fact_is_found_again_and_work_that_is_left_is_cleared(home: Home) -> None:
    conduct(home, arms())
    path, lines = lines_of(home, arms())
    last = json.loads(lines[-1])
    assert last["fact"] == "ended"
    first = facts(home, arms(), Ended)[0]
    path.write_text("".join(lines[:-1]))
    left = [home.study(arms().id).work(*of) for of in ((last["run"], last["code"], 1), (first.run, first.code, 2))]
    for folder in left:
        folder.mkdir(parents=True)
    assert not conduct(home, arms()).trained
    assert facts(home, arms(), Ended)[-1].reused
    assert not any(folder.exists() for folder in left)


def test_answers_are_shared_between_studies(home: Home) -> None:
    conduct(home, arms(), max_concurrent=2)
    other = arms({"near": {"encoding.gamma": 1.0}, "peg": {"encoding.kind": "peg"}}, name="others")
    assert {run.recipe.encoding.kind for run in conduct(home, other).order} == {"peg"}
    reused = [end.run for end in facts(home, other, Ended) if end.reused]
    assert len(reused) == 2
    for key in reused:
        assert [fact.epoch for fact in facts(home, other, Measured) if fact.run == key] == [1, 2, 3, 4, 5, 6]


def test_a_reused_answer_is_judged_as_if_it_were_trained(tmp_path: Path) -> None:
    alone, after = Home(tmp_path / "alone"), Home(tmp_path / "after")
    edition = search(9)
    conduct(alone, edition)
    points = {str(fact.number): fact.values for fact in facts(alone, edition, Planned) if fact.role == "trial"}
    conduct(after, arms(points))
    assert {run.seed for run in conduct(after, edition).order} <= {1000, 1001}
    before, stops = ({fact.run: fact.epoch for fact in facts(home, edition, StoppedAt)} for home in (alone, after))
    assert before == stops != {}
    assert not stops.keys() & {fact.run for fact in facts(after, edition, Ended)}


def test_weights_that_are_gone_are_trained_again_and_added(home: Home) -> None:
    edition = arms()
    conduct(home, edition)
    key, code, outcomes = edition.arms()[0].runs(1)[0].key, facts(home, edition, Ended)[0].code, Outcomes(home)
    before = outcomes.get(key, code)
    outcomes.weights(key, code).unlink()
    assert {run.key for run in conduct(home, arms(name="others")).order} == {key}
    assert outcomes.has_sound_weights(key, code)
    after = outcomes.get(key, code)
    assert after.model_copy(update={"weights": before.weights}) == before, "the rest of an answer is written once"


@pytest.fixture
def other_numbers(monkeypatch):
    """From its call on, runs measure other numbers: as on another machine, or after a change that no digest shows."""

    def change() -> None:
        def raised(run, epoch):
            measured = measure(run, epoch)
            return measured.model_copy(update={"values": {name: v + 0.125 for name, v in measured.values.items()}})

        monkeypatch.setattr(engine, "measure", raised)

    return change


def test_other_numbers_take_the_place_of_an_answer_without_weights(home: Home, other_numbers) -> None:
    first, other = arms(), arms(name="others")
    conduct(home, first)
    key, code, outcomes = facts(home, first, Ended)[0].run, facts(home, first, Ended)[0].code, Outcomes(home)
    before, old = outcomes.get(key, code), outcomes.path(key, code).read_bytes()
    outcomes.weights(key, code).unlink()
    outcomes.probe(key, code, "position").write_bytes(b"what a probe found in the model that is gone")
    other_numbers()
    with driving(home, other) as driver:
        assert [run.key for run in Toy(driver, random.Random(0)).drive().order] == [key]
        assert driver.replaced == [key]
    assert not facts(home, other, FailedWith)
    new = outcomes.get(key, code, whole=True)
    assert new.outcome.final["val/accuracy"] == before.outcome.final["val/accuracy"] + 0.125
    assert outcomes.path(key, code).with_name(f"{code}.json.damaged").read_bytes() == old
    assert not outcomes.probe(key, code, "position").exists(), "it is of the other model"
    assert not conduct(home, other).trained

    row = Result.open(home, first.id).rows[0]
    assert row.runs[0].curve == before.curve, "all of one training"
    assert row.runs[0].answered is None
    assert [*row.weights] == [1], "nor the model of the other one"
    for _ in range(2):
        assert not conduct(home, first).trained
        assert [fact.reason for fact in facts(home, first, FailedWith)] == [LOST], "once"
    assert Result.open(home, first.id).rows[0].runs[0].answered == new
    assert History.open(home, first).states[key, code].values == new.curve


def test_an_answer_counts_for_a_study_that_had_begun_the_run_itself(home: Home, other_numbers) -> None:
    """The epochs that it measured stay, and the last one, which has the scores, is the answer's."""
    conduct(home, arms(), cut=3)
    other_numbers()
    conduct(home, arms(name="others"))
    assert not conduct(home, arms()).trained
    run = Result.open(home, arms().id).rows[0].runs[0]
    assert run.state.values[1] != run.curve[1]
    assert run.curve == run.answered.curve
    assert not facts(home, arms(), FailedWith)
    conduct(home, arms())
    assert not facts(home, arms(), FailedWith)


def spoil(path: Path, damage: float | str) -> None:
    """Removes a file, keeps a share of it, or changes a bit that neither its size nor its end shows."""
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "a bit":
        content[len(content) // 3] ^= 1
        path.write_bytes(content)
    else:
        path.write_bytes(content[: int(damage * len(content))])


@pytest.mark.parametrize("damage", ["gone", 0.0, 0.5, 0.99])
@pytest.mark.parametrize("edition", [arms(), search()], ids=["ablation", "search"])
def test_a_lost_answer_is_trained_again_and_comes_out_the_same(home: Home, edition: Edition, damage) -> None:
    conduct(home, edition)
    outcomes, lost = Outcomes(home), facts(home, edition, Ended)[1]
    before, path = outcomes.get(lost.run, lost.code), outcomes.path(lost.run, lost.code)
    means = [row.mean for row in one_status(home, edition.id).rows]
    spoil(path, damage)
    assert outcomes.get(lost.run, lost.code) is None
    plan = estimate_work(History.open(home, edition), outcomes, Placement(max_concurrent=2))
    assert plan.missing == 1
    assert [run.key for run in conduct(home, edition).order] == [lost.run]
    assert outcomes.get(lost.run, lost.code).repeats(before)
    assert [row.mean for row in one_status(home, edition.id).rows] == means
    aside = {file.name.partition(".")[2] for file in path.parent.glob("*.damaged")}
    assert aside == (set() if damage == "gone" else {"json.damaged", "pt.damaged"}), "nothing tells what weights were"
    assert conduct(home, edition).order == [], "once"


def test_another_study_does_not_stumble_over_it(home: Home) -> None:
    conduct(home, arms())
    lost = facts(home, arms(), Ended)[0]
    spoil(Outcomes(home).path(lost.run, lost.code), 0.5)
    assert [run.key for run in conduct(home, arms(name="others")).order] == [lost.run]


def test_a_lost_answer_counts_as_it_comes_out_again(home: Home, other_numbers) -> None:
    conduct(home, arms())
    lost = facts(home, arms(), Ended)[1]
    Outcomes(home).path(lost.run, lost.code).unlink()
    other_numbers()
    conduct(home, arms())
    answer = Outcomes(home).get(lost.run, lost.code)
    state = History.open(home, arms()).states[lost.run, lost.code]
    assert [epoch.values for epoch in answer.outcome.curve] == [epoch.values for epoch in state.curve.values()]
    assert answer.outcome.curve[0].values["val/accuracy"] == measure(answer.run, 1).values["val/accuracy"] + 0.125


CHILD = {"encoding.gamma": 1.0, "init": FromTrial(values={"data.task": "absolute"}).plain()}


def chained() -> Edition:
    """A child of a parent of a parent."""
    later = FromTrial(values=CHILD).plain()
    return arms({"child": CHILD, "grandchild": {"encoding.gamma": 1.5, "init": later}}, seeds=1)


def cut_after_the_first_parent(home: Home) -> Ended:
    """Its end, one epoch after which the driver was killed."""
    with driving(home, chained()) as driver, pytest.raises(CutError):
        Toy(driver, random.Random(0), cut=6).drive()
    return facts(home, chained(), Ended)[0]


@pytest.mark.parametrize("damage", [0.0, 0.5, 0.99, "gone", "a bit"])
def test_a_parent_without_its_weights_is_trained_again_before_its_child(home: Home, damage) -> None:
    parent, outcomes = cut_after_the_first_parent(home), Outcomes(home)
    before, weights = outcomes.get(parent.run, parent.code), outcomes.weights(parent.run, parent.code)
    spoil(weights, damage)
    assert next(run.key for run in conduct(home, chained()).order) == parent.run
    assert outcomes.get(parent.run, parent.code).repeats(before)
    assert outcomes.has_sound_weights(parent.run, parent.code)
    assert weights.with_name(f"{weights.name}.damaged").exists() == (damage != "gone")
    assert conduct(home, chained()).order == [], "once"


def test_a_lost_parent_that_comes_out_with_other_numbers_gives_way(home: Home, other_numbers) -> None:
    """The old numbers would stand beside weights that never had them."""
    parent, outcomes = cut_after_the_first_parent(home), Outcomes(home)
    outcomes.weights(parent.run, parent.code).unlink()
    other_numbers()
    with driving(home, chained()) as driver:
        Toy(driver, random.Random(0)).drive()
        assert driver.replaced == [parent.run]
    assert [fact.reason for fact in facts(home, chained(), FailedWith)] == [LOST]
    new, (path,) = outcomes.get(parent.run, parent.code), home.outcomes.glob(f"{parent.run}/*.json.damaged")
    assert not new.repeats(Answered.read_text(unsealed(path.read_bytes()).decode()))
    assert History.open(home, chained()).states[parent.run, parent.code].curve[1].values == new.outcome.curve[0].values


def test_what_a_lost_parent_itself_starts_from_is_trained_first(home: Home) -> None:
    edition, outcomes = chained(), Outcomes(home)
    conduct(home, edition)
    parents = {run.key for child in History.open(home, edition)._everyone() for run in ancestors(child)}
    ends = [fact for fact in facts(home, edition, Ended) if fact.run in parents]
    assert len(ends) == 2
    for fact in ends:
        outcomes.weights(fact.run, fact.code).unlink()
    assert conduct(home, edition).order == [], "nobody needs them any more"
    grandchild = facts(home, edition, Ended)[-1]
    assert grandchild.run not in parents
    outcomes.path(grandchild.run, grandchild.code).unlink()
    assert [run.key for run in conduct(home, edition).order] == [*(fact.run for fact in ends), grandchild.run]
