"""Where a cluster is gone, a home that this machine sees says what is left of its studies, and how to go on."""

import json

from typer.testing import CliRunner

from service.cli import app
from service.storage.home import Home
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import conduct, driving
from trainables.spec import LocusError

GONE = "http://127.0.0.1:9"
ID = arms().id


def typed(*words):
    return CliRunner().invoke(app, ["status", *words, "--address", GONE])


def state(home: Home) -> tuple[str, str]:
    (found,) = json.loads(typed(ID, "--home", str(home.root), "--json").output)
    return found["state"], found["why"]


def test_a_study_that_nobody_runs_is_lost_and_one_that_is_done_is_done(home, tmp_path):
    conduct(home, arms(), cut=5)
    assert state(home) == ("lost", f"no Ray cluster answers at {GONE} (5 s)")
    shown = " ".join(typed("arms", "--home", str(tmp_path)).output.split())
    assert "lost; " in shown
    assert f"no Ray cluster answers at {GONE}" in shown
    assert f"locus submit {ID} --address {GONE} --home {tmp_path}" in shown
    conduct(home, arms())
    assert state(home)[0] == "done"
    assert "locus submit" not in typed("arms", "--home", str(tmp_path)).output


def test_a_study_that_a_driver_holds_is_not_lost(home):
    with driving(home, arms()):
        assert state(home)[0] == "running"


def test_all_studies_of_the_home_are_listed(home, tmp_path):
    conduct(home, arms(), cut=5)
    conduct(home, arms().named("again"))
    shown = typed("--home", str(tmp_path)).output
    assert [line.split()[:2] for line in shown.splitlines()[1:3]] == [[ID, "lost"], [f"{ID}~again", "done"]]


def test_without_a_home_the_cluster_must_answer():
    done = typed("arms")
    assert isinstance(done.exception, LocusError)
    assert "--home shows what a home that this machine sees has" in str(done.exception)
