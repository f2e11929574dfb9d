"""MLflow away, stopped, locked, or losing its answers while a study runs: nothing waits, is lost, or is there twice."""

from __future__ import annotations

import random
import signal
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from mlflow.entities import ViewType

from search_spaces.study import Edition
from service.storage.home import Home
from service.storage.journal import Fact
from service.tracking.store import look_up, make_database
from service.tracking.sync import MlflowSync
from tests.faults.mlflow_server import LosesAnswers, Mlflow
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import Toy, driving

pytestmark = [pytest.mark.fault, pytest.mark.timeout(400)]
PACE_S = 0.08
"""How long the engine takes for a fact: a study of 12 s."""
FAULT_AT = 30
"""The fact at which the fault begins."""


@pytest.fixture(autouse=True)
def few_retries(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")


@pytest.fixture
def mlflow(tmp_path):
    found = Mlflow(Home(tmp_path / "server"))
    yield found
    found.end()


def study() -> Edition:
    gammas = {f"gamma {gamma}": {"encoding.gamma": gamma} for gamma in (1.0, 2.0, 3.0, 4.0, 5.0)}
    return arms({"none": {"encoding.kind": "none"}, **gammas})


def drive(home: Home, tracking: str | None, fault=lambda: None) -> tuple[str | None, float, list[str]]:
    """Runs the study beside MLflow; the fault begins in a thread. Returns the warning, the longest wait, the notes."""
    longest, notes, edition = 0.0, [], study()
    with driving(home, edition) as driver:
        sync = MlflowSync(edition, home, lambda recipe: driver.codes(recipe).digest, tracking)
        sync.open()
        faults = threading.Thread(target=fault)
        heard = 0

        def hear(fact: Fact) -> None:
            nonlocal longest, heard
            begun = time.monotonic()
            sync.add(fact)
            longest = max(longest, time.monotonic() - begun)
            heard += 1
            if heard == FAULT_AT:
                faults.start()
            time.sleep(PACE_S)

        for fact in driver.journal.facts:
            sync.add(fact)
        driver.listeners.append(hear)
        Toy(driver, random.Random(0), max_concurrent=2).drive()
        warning = sync.close("FINISHED", note=notes.append)
        if heard >= FAULT_AT:
            faults.join()
    return warning, longest, notes


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


def within(seconds: float, begin, end) -> None:
    begin()
    time.sleep(seconds)
    end()


@pytest.mark.parametrize("seconds", [pytest.param(1, marks=pytest.mark.gate), 20, 60])
def test_it_is_killed_and_comes_back(tmp_path, mlflow, right, capsys, seconds):
    home = Home(tmp_path / "home")
    warning, longest, notes = drive(home, mlflow.address, lambda: within(seconds, mlflow.kill, mlflow.start))
    assert longest < 0.1, "no fact waits"
    assert warning is None, notes
    assert told(home, mlflow.address) == right
    assert notes or seconds < 45, "a long wait at the end is said"
    assert "View run" not in capsys.readouterr().out, "MLflow would print a line for each run, over the screen"


def test_it_stands_still_for_a_while(tmp_path, mlflow, right):
    home = Home(tmp_path / "home")
    stop, go_on = (lambda number=number: mlflow.signal(number) for number in (signal.SIGSTOP, signal.SIGCONT))
    warning, longest, notes = drive(home, mlflow.address, lambda: within(25, stop, go_on))
    assert longest < 0.1
    assert warning is None, notes
    assert told(home, mlflow.address) == right


@pytest.mark.parametrize("every", [2, 3, 7])
def test_answers_are_lost_after_the_work_is_done(tmp_path, mlflow, right, every):
    home, proxy = Home(tmp_path / "home"), LosesAnswers(mlflow.address, every)
    try:
        warning, longest, notes = drive(home, proxy.address)
    finally:
        proxy.end()
    assert proxy.lost > 10
    assert longest < 0.1
    assert warning is None, notes
    assert told(home, mlflow.address) == right


def test_it_stays_away_and_the_next_command_sends_the_rest(tmp_path, mlflow, right, monkeypatch):
    monkeypatch.setattr("service.tracking.sync.CLOSE_S", 6.0)
    home = Home(tmp_path / "home")
    warning, longest, notes = drive(home, mlflow.address, mlflow.kill)
    assert longest < 0.1
    assert "run the study again to send the rest" in warning
    assert "waiting for MLflow" in notes[0]
    mlflow.start()
    assert drive(home, mlflow.address)[0] is None, "nothing is trained"
    assert told(home, mlflow.address) == right


def test_its_database_is_locked_for_30_seconds(tmp_path, right):
    home = Home(tmp_path / "home")
    home.root.mkdir()
    make_database(home)

    def lock() -> None:
        with sqlite3.connect(Path(home.tracking.removeprefix("sqlite:///")), timeout=30, isolation_level=None) as base:
            base.execute("BEGIN EXCLUSIVE")
            time.sleep(30)
            base.execute("ROLLBACK")

    warning, longest, notes = drive(home, None, lock)
    assert longest < 0.1
    assert warning is None, notes
    assert told(home, None) == right
