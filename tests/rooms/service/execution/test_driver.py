"""The driver on a toy engine: resume, reuse, failures, adoption, the stop flag; nothing twice, nothing lost."""

import json
import random
import shutil
from pathlib import Path

import pytest

from search_spaces.space import Choice, Real, Space
from search_spaces.study import Ablation, Edition, Halving, Search, Study
from service.execution.driver import FINISHED, Stop
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import Adopted, Confirms, Ended, FailedWith, Measured, Planned, Started, StoppedAt, read
from service.storage.outcomes import Outcomes
from tests.rooms.toy import Toy, conduct, driving, measure, message
from trainables.encodings import Fourier
from trainables.recipe import FromTrial, Recipe, Run, code_digest
from trainables.recipe.code_digest import FOLDER, CodeDigests

HALVING = Halving()
BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 6})


def search(trials: int = 6, stop: Halving | None = HALVING, **changes) -> Edition:
    plan = Search(
        space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}),
        first=({"encoding.gamma": 2.5},),
        trials=trials,
        stop=stop,
    )
    return Study(**{"name": "reach", "question": "?", "base": BASE, "plan": plan, "seeds": 2} | changes).at()


def arms(values: dict | None = None, **changes) -> Edition:
    some = values or {
        "none": {"encoding.kind": "none"},
        "near": {"encoding.gamma": 1.0},
        "far": {"encoding.gamma": 8.0},
    }
    plan = Ablation(arms=some, baseline=next(iter(some)))
    return Study(**{"name": "arms", "question": "?", "base": BASE, "plan": plan, "seeds": 2} | changes).at()


def facts(home: Home, edition: Edition, kind=object) -> list:
    return [fact for fact in read(home.study(edition.id).journal)[0] if isinstance(fact, kind)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


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


def test_work_that_a_killed_driver_left_is_cleared(home: Home) -> None:
    edition = arms()
    conduct(home, edition)
    end = facts(home, edition, Ended)[0]
    left = home.study(edition.id).work(end.run, end.code, 2)
    left.mkdir(parents=True)
    conduct(home, edition)
    assert not left.exists()


def test_an_answer_holds_the_whole_curve(home: Home) -> None:
    edition = arms()
    conduct(home, edition, max_concurrent=2)
    run = edition.arms()[1].runs(2)[1]
    found = Outcomes(home).of(run.key)[0]
    expected = [measure(run, epoch).values["val/accuracy"] for epoch in range(1, 7)]
    assert [said.values["val/accuracy"] for said in found.outcome.curve] == expected
    assert found.environment == {"toy": 1}
    assert found.outcome.final["test/accuracy"] == expected[-1] - 0.01


def test_the_best_three_and_the_papers_point_are_confirmed_on_fresh_seeds(home: Home) -> None:
    edition = search(8, stop=None)
    toy = conduct(home, edition)
    confirms = facts(home, edition, Confirms)[-1].numbers
    assert len(confirms) in (3, 4)
    assert 0 in confirms
    fresh = [run for run in toy.order if run.seed >= 1000]
    assert sorted(run.seed for run in fresh) == sorted([1000, 1001] * len(confirms))
    planned = [fact.number for fact in facts(home, edition, Planned) if fact.role == "confirmation"]
    assert sorted(planned) == sorted(confirms)


@pytest.mark.parametrize("cut", [1, 3, 7, 8, 20, 31])
def test_a_killed_study_goes_on_where_it_stood(home: Home, cut: int) -> None:
    edition = arms()
    assert conduct(home, edition, 1, max_concurrent=2, cut=cut) is None
    toy = conduct(home, edition, 2, max_concurrent=2)
    ends = facts(home, edition, Ended)
    assert len(ends) == len({end.run for end in ends}) == 6
    attempts = {fact.run: fact.attempt for fact in facts(home, edition, Started)}
    resumed = [run.key for run in toy.order if attempts[run.key] > 1]
    assert len(resumed) <= 2
    curves = {answered.run.key: answered for end in ends for answered in Outcomes(home).of(end.run)}
    for answered in curves.values():
        for said in answered.outcome.curve:
            assert said.values["val/accuracy"] == measure(answered.run, said.epoch).values["val/accuracy"]


def test_a_resumed_run_takes_its_checkpoint_into_a_folder_of_its_own(home: Home) -> None:
    edition = arms()
    with driving(home, edition) as driver:
        job = driver.next()
        (Path(job.folder) / "checkpoint.pt").write_text("3")
        driver.on_result(job, message(measure(job.run, 1), job))
    with driving(home, edition) as driver:
        again = driver.next()
        assert (again.run, again.attempt) == (job.run, 2)
        assert again.folder != job.folder
        assert (Path(again.folder) / "checkpoint.pt").read_text() == "3"
        toy = Toy(driver, random.Random(0))
        toy.workers[again.run.key] = (again, toy._train(again))
        toy.drive()
    assert min(epoch for key, epoch in toy.trained if key == job.run.key) == 4


def test_a_stopped_driver_gives_nothing_and_each_run_ends_at_its_next_report(home: Home) -> None:
    edition, stop = arms(), Stop()
    with driving(home, edition, stop=stop) as driver:
        toy = Toy(driver, random.Random(0), max_concurrent=2)
        for _ in range(3):
            toy._fill()
            toy._advance(sorted(toy.workers)[0])
        stop.asked = True
        assert driver.next() is FINISHED
        toy.drive()
        assert not driver.in_flight
    kept = list(home.study(edition.id).root.glob("work/*/*/*/checkpoint.pt"))
    assert len(kept) == 2
    assert set(conduct(home, edition).trained.values()) == {1}
    assert Stop(deadline=0.0)
    assert not Stop(deadline=1e12)


def test_more_seeds_and_trials_run_only_what_is_missing(home: Home) -> None:
    conduct(home, search(6))
    before = {end.run for end in facts(home, search(6), Ended)}
    toy = conduct(home, search(9, seeds=3))
    assert not before & {run.key for run in toy.order}
    trials = [fact for fact in facts(home, search(6), Planned) if fact.role == "trial"]
    assert [fact.number for fact in trials] == list(range(9))
    assert not conduct(home, search(3, seeds=1)).trained


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
    text = outcomes.path(run.key, code).read_text()
    outcomes.weights(run.key, code).unlink()
    toy = conduct(home, other)
    assert {one.key for one in toy.order} == {run.key}
    assert outcomes.weights(run.key, code).read_text() == run.key
    assert outcomes.path(run.key, code).read_text() == text, "an answer is written once"


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
    outcomes.path(run.key, code).write_text(json.dumps(known))
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
        driver.journal.write(Adopted(run=run.key, code=code))
    Outcomes(home).path(run.key, code).unlink()
    toy = conduct(home, other)
    assert [one.key for one in toy.order] == [run.key]
    (started,), (ended,) = facts(home, other, Started), facts(home, other, Ended)
    assert started.code == ended.code == CodeDigests()(run.recipe).digest != code
    assert not conduct(home, other).trained


def test_arms_that_were_lost_in_a_crash_are_listed(home: Home) -> None:
    edition, calm = arms(), arms(name="calm")
    folder = home.study(edition.id)
    with driving(home, edition) as driver:
        driver.next()
    lines = folder.journal.read_text().splitlines(keepends=True)
    planned = [number for number, line in enumerate(lines) if '"planned"' in line]
    assert len(planned) == 3
    folder.journal.write_text("".join(lines[: planned[2]]))
    conduct(home, edition)
    conduct(home, calm)
    listed = [(fact.number, fact.name) for fact in facts(home, edition, Planned)]
    assert listed == [(0, "none"), (1, "near"), (2, "far")]
    assert [end.run for end in facts(home, edition, Ended)] == [end.run for end in facts(home, calm, Ended)]


def test_weights_that_do_not_reach_the_drivers_disk_are_a_failure(home: Home) -> None:
    edition = arms()
    with driving(home, edition) as driver:
        job = driver.next()
        for epoch in range(1, 7):
            driver.on_result(job, message(measure(job.run, epoch), job))
    (failed,) = facts(home, edition, FailedWith)
    assert failed.reason.endswith("all nodes must share the folder of --home")
    assert not Outcomes(home).of(job.run.key)


def test_a_study_that_keeps_nothing_keeps_nothing(home: Home) -> None:
    edition = arms(keep=())
    conduct(home, edition)
    assert not list(home.outcomes.glob("*/*.pt"))
    assert not conduct(home, arms(name="others", keep=())).trained


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
            driver.on_failure(job, "the node is gone", lost=True)


def test_the_confirmation_is_done_without_a_trial_that_failed(home: Home) -> None:
    edition = search(6)
    bad = edition.trial(0, {"encoding.gamma": 2.5}).runs(1)[0].key
    conduct(home, edition, fails=lambda job, epoch: job.run.key == bad)
    assert 0 not in facts(home, edition, Confirms)[-1].numbers


ABSOLUTE = {"data.task": "absolute", "optimizer.lr": 0.001}
STARTS = {
    "alone": {},
    "first": {"encoding.gamma": 1.0, "init": FromTrial(values={"data.task": "absolute"}).plain()},
    "second": {"encoding.gamma": 1.0, "optimizer.lr": 0.01, "init": FromTrial(values=ABSOLUTE).plain()},
    "third": {"encoding.gamma": 1.0, "init": FromTrial(values={"data.task": "direction4"}).plain()},
}
"""The first and the second share a parent."""


@pytest.mark.parametrize("keep", [("weights",), ()])
def test_parents_come_first_and_shared_ones_once(home: Home, keep: tuple) -> None:
    edition = arms(STARTS, keep=keep)
    toy = conduct(home, edition, max_concurrent=3)
    keys = [run.key for run in toy.order]
    assert len(keys) == len(set(keys))
    parents = [fact for fact in facts(home, edition, Planned) if fact.role == "parent"]
    assert [fact.number for fact in parents] == [1, 2]
    for arm in edition.arms()[1:]:
        for run in arm.runs(2):
            assert all(keys.index(parent.key) < keys.index(run.key) for parent in run.needs())
    first, second = (arm.runs(1)[0].needs()[0].key for arm in edition.arms()[1:3])
    assert first == second
    assert len(keys) == 12


def test_a_teacher_is_a_parent_listed_as_one(home: Home) -> None:
    teacher = {"kind": "from_trial", "values": {"encoding.kind": "peg"}}
    some = {"alone": {}, "taught": {"model.pool": "distilled", "teacher": teacher}}
    edition = arms(some)
    toy = conduct(home, edition)
    (listed,) = [fact for fact in facts(home, edition, Planned) if fact.role == "parent"]
    assert listed.name == "teacher: peg on direction"
    keys = [run.key for run in toy.order]
    for pupil in edition.arms()[1].runs(2):
        assert keys.index(pupil.needs()[0].key) < keys.index(pupil.key)
    assert len(keys) == 6


def test_an_arm_that_is_a_parent_too_keeps_its_weights(home: Home) -> None:
    some = {"far": {"encoding.gamma": 8.0}, "child": {"init": FromTrial(values={"encoding.gamma": 8.0}).plain()}}
    toy = conduct(home, arms(some, keep=()))
    assert len(toy.order) == 4


def test_a_diverged_parent_makes_its_children_diverged_untrained(home: Home) -> None:
    some = {"alone": {}, "child": {"init": FromTrial(values={"encoding.gamma": 30.0}).plain()}}
    edition = arms(some)
    toy = conduct(home, edition)
    children = {run.key for run in edition.arms()[1].runs(2)}
    assert not children & {run.key for run in toy.order}
    ended = [fact for fact in facts(home, edition, Ended) if fact.run in children]
    assert [fact.outcome for fact in ended] == ["diverged", "diverged"]
    assert Outcomes(home).of(ended[0].run)[0].outcome.reason == "its parent diverged"


def test_a_failed_parent_blocks_its_children_and_nothing_else(home: Home) -> None:
    edition = arms(STARTS)
    parent = edition.arms()[1].runs(1)[0].needs()[0].key
    toy = conduct(home, edition, max_concurrent=2, fails=lambda job, epoch: job.run.key == parent)
    assert len(facts(home, edition, Ended)) == 12 - 3
    assert [run.key for run in toy.order].count(parent) == 2
    assert len({run.key for run in conduct(home, edition).order}) == 3


@pytest.fixture
def other_code(tmp_path_factory, monkeypatch):
    """Changes the code of Fourier features from here on."""

    def change() -> None:
        folder = tmp_path_factory.mktemp("code")
        shutil.copytree(FOLDER, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        file = folder / "encodings" / "fourier.py"
        file.write_text(file.read_text() + "\nSPARE = 1\n")
        monkeypatch.setattr(code_digest, "FOLDER", folder)

    return change


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


def test_a_run_at_its_last_epoch_is_completed_whoever_ended_it(home: Home) -> None:
    space = Space({"optimizer.epochs": Choice(options=(2, 6)), "encoding.gamma": Real(low=0.1, high=40, log=True)})
    edition = search(plan=Search(space=space, trials=10, stop=Halving()))
    conduct(home, edition)
    short = {run.key for run in _runs(home, edition) if run.recipe.optimizer.epochs == 2}
    assert short
    assert not short & {fact.run for fact in facts(home, edition, StoppedAt)}


def _runs(home: Home, edition: Edition) -> list[Run]:
    planned = [fact for fact in facts(home, edition, Planned) if fact.role == "trial"]
    return [run for fact in planned for run in edition.trial(fact.number, fact.values).runs(2)]


def test_a_decision_that_was_not_written_is_taken_again(home: Home) -> None:
    edition = search(6)
    conduct(home, edition)
    path = home.study(edition.id).journal
    lines = path.read_text().splitlines(keepends=True)
    stop = next(number for number, line in enumerate(lines) if '"fact":"stopped"' in line)
    shutil.rmtree(home.outcomes)
    path.write_text("".join(lines[:stop]))
    with driving(home, edition):
        pass
    known, again = json.loads(lines[stop]), json.loads(path.read_text().splitlines()[stop])
    assert {**known, "time": 0} == {**again, "time": 0}


@pytest.mark.timeout(60)
def test_a_child_whose_adopted_answer_is_gone_ends_with_its_diverged_parent(home: Home) -> None:
    """The driver was killed between `adopted` and `ended`, and the adopted answer was removed."""
    edition = arms({"alone": {}, "child": {"init": FromTrial(values={"encoding.gamma": 30.0}).plain()}})
    child = edition.arms()[1].runs(1)[0]
    with driving(home, edition) as driver:
        driver._write(Adopted(run=child.key, code="0123456789ab"))
        driver.journal.write = limited(driver.journal.write)
        Toy(driver, random.Random(0)).drive()
    ends = [fact for fact in facts(home, edition, Ended) if fact.run == child.key]
    assert [end.outcome for end in ends] == ["diverged"]


def limited(write, most: int = 200):
    """A journal's `write` that fails after so many facts, where a driver would write for ever."""
    written = []

    def once(fact):
        written.append(fact)
        assert len(written) < most, "the driver writes the same facts for ever"
        return write(fact)

    return once


def test_an_answer_without_its_ended_fact_is_found_again(home: Home) -> None:
    edition = arms()
    conduct(home, edition)
    path = home.study(edition.id).journal
    lines = path.read_text().splitlines(keepends=True)
    assert '"fact":"ended"' in lines[-1]
    path.write_text("".join(lines[:-1]))
    leftover = home.study(edition.id).work(json.loads(lines[-1])["run"], json.loads(lines[-1])["code"], 1)
    leftover.mkdir(parents=True)
    assert not conduct(home, edition).trained
    assert facts(home, edition, Ended)[-1].reused
    assert not leftover.exists()
