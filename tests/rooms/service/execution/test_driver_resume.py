"""The driver after a kill, a crash or a stop: it goes on where it stood."""

import json
import random
import shutil
from pathlib import Path

from search_spaces.study import Edition
from service.execution.driver import FINISHED, Stop
from service.storage.facts import Ended, Planned, Started
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import Toy, conduct, driving, measure, message


def test_work_that_a_killed_driver_left_is_cleared(home: Home) -> None:
    edition = arms()
    conduct(home, edition)
    end = facts(home, edition, Ended)[0]
    left = home.study(edition.id).work(end.run, end.code, 2)
    left.mkdir(parents=True)
    conduct(home, edition)
    assert not left.exists()


def test_a_killed_study_goes_on_where_it_stood(home: Home) -> None:
    edition = arms()
    for cut in (1, 3, 7, 8, 20, 31):
        goes_on(Home(home.root / str(cut)), edition, cut)


def goes_on(home: Home, edition: Edition, cut: int) -> None:
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
    opened, again = (json.loads(line) for line in path.read_text().splitlines()[stop : stop + 2])
    assert opened["fact"] == "opened"
    assert {**json.loads(lines[stop]), "time": 0, "by": 2, "sum": ""} == {**again, "time": 0, "sum": ""}


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
