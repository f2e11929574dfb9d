"""What a job of a cluster runs: each question has its answer as one line of JSON, and a refusal is a fact, too."""

import base64
import json
import threading

import pytest
from typer.testing import CliRunner

from service.analysis.study_status import StudyStatus, one_status
from service.cli import app
from service.execution import job_messages
from service.execution.job_messages import EventsOf, More, ResultOf, StatusOf, StopNow, is_fact, told
from service.execution.signals import take_request
from service.execution.submission import question_sent
from service.planning.run_options import RunOptions
from service.results import Result
from service.storage.home import Home
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import conduct, driving
from tests.waiting import until

ID = arms().id


@pytest.fixture
def home(tmp_path):
    found = Home(tmp_path / "home")
    conduct(found, arms())
    return found


@pytest.fixture
def asked(tmp_path):
    def type(question):
        (tmp_path / "job.json").write_text(json.dumps(question_sent(question)))
        done = CliRunner().invoke(app, ["job", str(tmp_path / "job.json")])
        return done, told(done.output.splitlines())

    return type


@pytest.fixture
def heard():
    """Reads what a driver is asked, as the driver would."""
    threads = []

    def listen(driver) -> list:
        found = []

        def read():
            until(lambda: found.extend(filter(None, [take_request(driver.folder)])) or found)

        threads.append(threading.Thread(target=read))
        threads[0].start()
        return found

    yield listen
    for thread in threads:
        thread.join()


def test_the_state_of_one_study_travels_whole(home, asked):
    done, facts = asked(StatusOf(ID, home=str(home.root)))
    assert done.exit_code == 0, done.output
    (found,) = facts["answer"]["studies"]
    assert StudyStatus.read(found) == one_status(home, ID)
    assert len(StudyStatus.read(found).rows) > 1
    assert facts["answer"]["edition"] == arms().plain()


def test_the_state_of_all_studies_travels(home, asked):
    conduct(home, arms().named("again"))
    _, facts = asked(StatusOf(home=str(home.root)))
    assert [one["id"] for one in facts["answer"]["studies"]] == [ID, f"{ID}~again"]


def test_the_events_of_a_run_are_lines_for_people(home, asked):
    done, facts = asked(EventsOf(ID, "1.0", home=str(home.root)))
    lines = [line for line in done.output.splitlines() if not is_fact(line)]
    assert sum("#1 seed 0 epoch" in line for line in lines) == 6
    assert not any("#0" in line for line in lines)
    assert facts == {"answer": True}


def test_the_result_travels(home, asked, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _, facts = asked(ResultOf(ID, home=str(home.root)))
    there = job_messages.fetched(base64.b64decode(facts["answer"]), "there")
    assert Result.open(there, ID).table().to_csv() == Result.open(home, ID).table().to_csv()


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (EventsOf(ID, "9.0"), "--run must be the key of a run"),
        (EventsOf("nothing"), "no study 'nothing'"),
        (ResultOf("nothing@base"), "no study 'nothing@base'"),
        (StatusOf("nothing@base"), "no study 'nothing@base'"),
        (StopNow(ID), "is not being run here"),
    ],
    ids=["run", "events", "result", "status", "stop"],
)
def test_a_refusal_is_a_fact(home, asked, question, why):
    done, facts = asked(type(question)(**{**dict(question), "home": str(home.root)}))
    assert done.exit_code == 2
    assert why in facts["refused"]
    assert "answer" not in facts


def test_a_driver_is_asked_to_stop_now(home, asked, heard):
    with driving(home, arms()) as driver:
        found = heard(driver)
        done, facts = asked(StopNow(ID, home=str(home.root)))
        assert done.exit_code == 0, done.output
    assert [one.stop for one in found] == ["now"]
    assert facts == {"answer": "was asked to stop now"}


def test_a_driver_is_asked_for_more(home, asked, heard):
    with driving(home, arms()) as driver:
        found = heard(driver)
        options = RunOptions(max_concurrent=3, home=str(home.root))
        _, facts = asked(More(arms(), options, home=str(home.root)))
    assert [one.max_concurrent for one in found] == [3]
    assert "was asked for 3 concurrent runs" in facts["answer"]
