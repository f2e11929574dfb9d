"""MLflow away, stopped, locked, or losing its answers while a study runs: nothing waits, is lost, or is there twice."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from mlflow.entities import ViewType

from search_spaces.study import Edition
from service.storage.facts import Fact
from service.storage.home import Home
from service.tracking.store import look_up, make_database
from service.tracking.sync import MlflowSync
from tests.faults.mlflow_server import LosesAnswers, Mlflow
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import Toy, driving
from tests.waiting import LIMIT_S, until

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]
FAULT_AT, BACK_AT = 30, 60
"""The facts at which a fault begins and ends."""


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A request is soon given up; the end of a study waits longer than a busy machine needs to start MLflow."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")
    monkeypatch.setattr("service.tracking.sync.CLOSE_S", 240.0)


@pytest.fixture
def mlflow(tmp_path):
    found = Mlflow(Home(tmp_path / "server"))
    yield found
    found.end()


def study() -> Edition:
    gammas = {f"gamma {gamma}": {"encoding.gamma": gamma} for gamma in (1.0, 2.0, 3.0, 4.0, 5.0)}
    return arms({"none": {"encoding.kind": "none"}, **gammas})


def nothing() -> None:
    pass


def drive(
    home: Home,
    tracking: str | None,
    begin: Callable[[], object] = nothing,
    end: Callable[[], object] = nothing,
    end_at: int | None = None,
    pace_s: float = 0.0,
) -> tuple[str | None, list[str]]:
    """Runs the study beside MLflow, with a fault that begins in its midst. Returns the warning and the notes.

    The fault ends at a fact, or else when the study has ended and says that it waits; before, MLflow was missed. That
    the study comes so far shows that no fact waits for MLflow. `pace_s`: how long the study takes for a fact.
    """
    heard, notes, edition = [], [], study()
    with driving(home, edition) as driver:
        sync = MlflowSync(edition, home, tracking)
        sync.open()

        def missed() -> None:
            until(lambda: sync._trouble)
            end()

        def hear(fact: Fact) -> None:
            sync.add(fact)
            heard.append(fact)
            if begin is not nothing and len(heard) == FAULT_AT:
                until(lambda: look_up(home, edition, tracking))
                begin()
            if len(heard) == end_at:
                missed()
            time.sleep(pace_s)

        def note(line: str) -> None:
            notes.append(line)
            if end is not nothing and end_at is None and len(notes) == 1:
                missed()

        for fact in driver.journal.facts:
            sync.add(fact)
        driver.listeners.append(hear)
        Toy(driver, random.Random(0), max_concurrent=2).drive()
        warning = sync.close("FINISHED", note=note)
    assert not heard or len(heard) > BACK_AT
    return warning, notes


def told(home: Home, tracking: str | None) -> dict:
    """All that MLflow has of the study, without what names its runs."""
    store = look_up(home, study(), tracking)
    found = {}
    runs = store.client.search_runs([store.experiment], "", ViewType.ACTIVE_ONLY, max_results=1000)
    assert len(runs) == len(store.shown), "no run is there twice"
    for place, shown in store.shown.items():
        history = {
            name: [(one.step, one.value) for one in store.client.get_metric_history(shown.id, name)]
            for name in shown.latest
            if not name.startswith(("time/", "progress/", "best/"))
        }
        tags = {
            name: text for name, text in shown.tags.items() if name in ("locus.outcome", "locus.score", "locus.key")
        }
        found[place] = shown.status, shown.params, tags, history
    return found


@pytest.fixture(scope="module")
def right(tmp_path_factory) -> dict:
    """What MLflow has of a study without a fault."""
    home = Home(tmp_path_factory.mktemp("right"))
    assert drive(home, None)[0] is None
    return told(home, None)


@pytest.mark.parametrize("end_at", [pytest.param(BACK_AT, marks=pytest.mark.gate), None])
def test_it_is_killed_and_comes_back(tmp_path, mlflow, right, capsys, end_at):
    """While the study trains, or while it waits for MLflow at its end."""
    home = Home(tmp_path / "home")
    warning, notes = drive(home, mlflow.address, mlflow.kill, mlflow.start, end_at)
    assert warning is None, notes
    assert told(home, mlflow.address) == right
    assert notes or end_at, "a long wait at the end is said"
    assert "View run" not in capsys.readouterr().out, "MLflow would print a line for each run, over the screen"


def test_it_stands_still_for_a_while(tmp_path, mlflow, right):
    home = Home(tmp_path / "home")
    stop, go_on = (lambda number=number: mlflow.signal(number) for number in (signal.SIGSTOP, signal.SIGCONT))
    warning, notes = drive(home, mlflow.address, stop, go_on)
    assert warning is None, notes
    assert told(home, mlflow.address) == right


@pytest.mark.parametrize("every", [2, 3, 7])
def test_answers_are_lost_after_the_work_is_done(tmp_path, mlflow, right, every):
    """The study takes some seconds, so that it sends its facts in many parts."""
    home, proxy = Home(tmp_path / "home"), LosesAnswers(mlflow.address, every)
    try:
        warning, notes = drive(home, proxy.address, pace_s=0.08)
    finally:
        proxy.end()
    assert proxy.lost
    assert warning is None, notes
    assert told(home, mlflow.address) == right


def test_it_stays_away_and_the_next_command_sends_the_rest(tmp_path, mlflow, right, monkeypatch):
    home = Home(tmp_path / "home")
    with monkeypatch.context() as patch:
        patch.setattr("service.tracking.sync.CLOSE_S", 6.0)
        warning, notes = drive(home, mlflow.address, mlflow.kill)
    assert "run the study again to send the rest" in warning
    assert "waiting for MLflow" in notes[0]
    mlflow.start()
    assert drive(home, mlflow.address)[0] is None, "nothing is trained"
    assert told(home, mlflow.address) == right


def test_its_database_is_locked_for_a_while(tmp_path, right):
    home = Home(tmp_path / "home")
    home.root.mkdir()
    make_database(home)
    database = Path(home.tracking.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(database, timeout=LIMIT_S, isolation_level=None)) as base:
        warning, notes = drive(home, None, lambda: base.execute("BEGIN EXCLUSIVE"), lambda: base.execute("ROLLBACK"))
    assert warning is None, notes
    assert told(home, None) == right
