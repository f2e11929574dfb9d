"""A study on a cluster of two nodes: submitted, looked at, stopped, submitted again, and found whole in MLflow.

And `locus doctor` on that cluster, and on one that is open to everybody.
"""

import json
import os
import re
from pathlib import Path

import pytest

import service
from search_spaces.library import find
from search_spaces.study import Edition
from service.storage import editions
from service.storage.home import Home
from service.storage.journal import read
from service.tracking.rows import STUDY
from service.tracking.store import look_up
from tests.journeys.cluster import cluster_of_two
from tests.journeys.terminal import Terminal
from tests.waiting import LIMIT_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ID = "waves@long"
EPOCHS = 40


def shown(home: Home, edition: Edition) -> dict:
    """MLflow's runs by their place, with how they ended."""
    return {place: (one.id, one.status) for place, one in look_up(home, edition).shown.items()}


@pytest.mark.gate
def test_it_is_submitted_stopped_and_goes_on(cluster, laptop):
    home = Home(laptop.home)
    at = ("--address", cluster.address)
    send = ("submit", "./study.py", "--budget", "long", "--home", str(laptop.home), *at)

    first = laptop.do(*send)
    assert re.search(r"sent \d\.\d MB: the three packages and the study", first.out)
    assert any(line.startswith("versions: python") for line in first.lines)
    assert f"plan: {ID}: 3 runs to train" in first.out
    number = int(re.search(r"job locus-waves-long-(\d+)\n", first.out)[1])  # a second try of this test has others
    assert "2 concurrent runs" in first.out
    home_there = f"--home {laptop.home}"
    assert f"locus stop {ID} {' '.join(at)} {home_there}\n" in first.out

    again = laptop.type(*send, "--seeds", "2")
    assert again.code == 2
    assert f"{ID} is already running there as locus-waves-long-{number}; submit it again once it has ended" in again.err
    assert f"(locus stop {ID} {' '.join(at)} {home_there})" in again.err

    status = laptop.type("status", "waves", *at)
    assert f"{ID}  RUNNING  job locus-waves-long-{number}\n" in status.out, status.out + status.err

    watch = laptop.begin("logs", ID, *at, "-f")
    watch.wait_for("epoch 1/40")
    stopped = laptop.type("stop", ID, *at)
    assert re.search(rf"{ID} +STOPPED", stopped.out), stopped.out + stopped.err
    said = watch.end()
    assert said.code == 0
    measured = len(laptop.facts(ID, "measured"))
    assert 0 < measured < 3 * EPOCHS
    edition = editions.stored(home, ID)
    before = shown(home, edition)
    assert "RUNNING" not in {status for _, status in before.values()}, said.out
    assert before[STUDY][1] == "SCHEDULED"

    laptop.do(*send, "--seeds", "2")
    rest = laptop.type("logs", "waves", *at, "-f")
    status = laptop.type("status", ID, *at)
    assert f"{ID}  SUCCEEDED  job locus-waves-long-{number + 1}\n" in status.out, status.out + rest.out
    assert f"locus report {ID} {' '.join(at)} {home_there}\n" in status.out
    assert f"locus ui {ID} {home_there}\n" in rest.out, "a job's own home is not that of who reads this"
    assert len(laptop.facts(ID, "ended")) == 6, rest.out
    assert len({(fact.run, fact.epoch) for fact in laptop.facts(ID, "measured")}) == 6 * EPOCHS
    after = shown(home, edition)
    kept = {place: id for place, (id, _) in before.items() if place[0] != "trial"}
    assert {place: after[place][0] for place in kept} == kept, "a trial's own row changes with its seeds, no other"
    assert {status for _, status in after.values()} == {"FINISHED"}, rest.out


def test_a_refusal_over_there_is_one_line_here(cluster, laptop):
    wrong = laptop.type(
        "submit", "./study.py", "--home", str(laptop.home), "--address", cluster.address, "--threads", "9"
    )
    assert wrong.code == 2
    assert wrong.err.splitlines()[-1] == "locus: a run of 1 x 9 threads must fit 0 cores, got 9"
    assert not os.path.exists(Home(laptop.home).study("waves@base").root)
    status = laptop.do("status", "waves@base", "--address", cluster.address)
    assert "waves@base  FAILED  job locus-waves-base-1\nlast line  locus: a run of 1 x 9 threads" in status.out


@pytest.mark.gate
def test_an_unknown_study_and_a_wrong_token_are_one_line(cluster, laptop, tmp_path):
    unknown = laptop.type("status", "nothing", "--address", cluster.address)
    assert unknown.code == 2
    assert unknown.err == f"locus: no study 'nothing' was submitted to {cluster.address}\n"
    token = tmp_path / "token"
    token.write_text("f" * 48)
    refused = laptop.type("status", "nothing", "--address", cluster.address, RAY_AUTH_TOKEN_PATH=str(token))
    assert refused.code == 2
    assert "RAY_AUTH_TOKEN_PATH must name the cluster's token" in refused.err
    assert len(refused.err.strip().splitlines()) == 1


def test_worker_groups_span_the_nodes(cluster, laptop, monkeypatch):
    """From Python: the runs of two workers equal those of one process."""
    for name, value in cluster.token.items():
        monkeypatch.setenv(name, value)
    study = find(str(laptop.folder / "study.py"))
    sent = {"budget": "small", "seeds": 1, "address": cluster.address}
    curves = []
    for workers in (2, 0):
        home = str(laptop.folder / f"home-{workers}")
        submission = service.submit(study, home=home, workers=workers, **sent)
        result = submission.wait()
        assert submission.status() == "SUCCEEDED"
        assert str(Home(Path(home)).root) == str(result.home.root)
        facts, _ = read(result.home.study("waves@small").journal)
        assert not [fact for fact in facts if fact.fact == "failed"]
        measured = [fact for fact in facts if fact.fact == "measured"]
        curves.append({(fact.run, fact.epoch): fact.values["train/loss"] for fact in measured})
    assert len(curves[0]) == 6
    assert curves[0] == pytest.approx(curves[1], abs=1e-5)


def examined(terminal, cluster):
    done = terminal.type("doctor", "--address", cluster.address, "--json")
    assert done.err == "", done.err
    return done.code, json.loads(done.out)


def test_doctor_says_how_large_a_cluster_with_a_token_is(cluster, laptop):
    code, (check,) = examined(laptop, cluster)
    size = "2 nodes, 2 cores, 0 GPUs"
    assert (code, check["state"]) == (0, "ok"), check
    assert check["detail"] == f"{cluster.address} takes jobs with this token, and has this Ray: {size}"


def test_doctor_refuses_an_open_cluster_and_sends_nothing_there(tmp_path):
    with cluster_of_two(is_open=True) as cluster, Terminal(tmp_path) as laptop:
        code, (check,) = examined(laptop, cluster)
        assert (code, check["name"], check["state"]) == (1, "access", "wrong")
        assert "without a token" in check["detail"]
        jobs = laptop.python(
            f"import requests; print(requests.get('{cluster.address}/api/jobs/', timeout={LIMIT_S}).json())"
        )
        assert jobs.out.strip() == "[]"
