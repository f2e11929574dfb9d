"""A study whose home the laptop does not see: it is watched, steered and read from there all the same."""

import json
import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from service.execution.signals import Control, ask_driver
from service.results import Result
from service.storage import editions
from service.storage.home import Home
from service.tracking.store import look_up
from tests.faults.mlflow_server import Mlflow

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ID = "waves@long"
SLOW = f"{ID}~slow"
NAMESPACES = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
blind = pytest.mark.skipif(not NAMESPACES, reason="this machine gives users no mount namespaces")


@pytest.fixture
def afar(laptop):
    """The laptop, which does not see the cluster's home."""
    laptop.home.mkdir()
    laptop.hidden = laptop.home
    laptop.env["XDG_CACHE_HOME"] = str(laptop.folder / "cache")
    return laptop


@pytest.fixture
def at(cluster):
    return "--address", cluster.address


def said(typed) -> str:
    return " ".join((typed.out + typed.err).split())


@blind
def test_it_is_watched_stopped_now_and_read(afar, at):
    home = Home(afar.home)
    slow = ("--set", "data.train_size=10000", "--set", "optimizer.batch_size=2", "--as", "slow")  # an epoch of 20 s
    send = ("submit", "./study.py", "--budget", "long", *slow, "--home", str(afar.home), *at)
    first = afar.type(*send)
    assert first.code == 0, said(first)
    watch = afar.begin("logs", SLOW, *at, "-f")
    watch.wait_for("epoch 1/40")

    one = afar.type("status", SLOW, *at, "--json")
    assert one.code == 0, said(one)
    (found,) = json.loads(one.out)
    assert (found["id"], found["state"], found["job_state"], found["asked"]) == (SLOW, "running", "RUNNING", 3)
    assert found["left"] is None, "no run has ended"
    shown = afar.type("status", "waves", *at)
    assert "running; 0 of 3 runs; time left unknown" in shown.out, said(shown)
    every = afar.type("status", *at)
    assert re.search(rf"{SLOW} +running \(job RUNNING\) +0/3", every.out), said(every)
    assert not (afar.home / "studies" / SLOW / "control.json").exists()

    events = afar.type("logs", SLOW, "--run", "0.0", *at)
    assert events.code == 0, said(events)
    assert events.lines
    assert all("#0 seed 0" in line for line in events.lines)
    wrong = afar.type("logs", SLOW, "--run", "9.0", *at)
    assert (wrong.code, wrong.out) == (2, "")
    assert "locus: --run must be the key of a run" in said(wrong)

    stopped = afar.type("stop", SLOW, "--now", *at)
    assert re.search(rf"{SLOW} +STOPPED +job locus-waves-long-slow-1", stopped.out), said(stopped)
    assert watch.end().code == 0
    assert "asked by another command: stop now" in watch.out
    assert not home.study(SLOW).driven
    ends = {shown.status for shown in look_up(home, editions.stored(home, SLOW)).shown.values()}
    assert ends <= {"SCHEDULED", "FINISHED"}, "Ray kills after 120 s: then the runs would stay open"

    sofar = afar.type("status", SLOW, *at)
    assert "unfinished" in sofar.out, said(sofar)
    assert f"locus submit {SLOW} {' '.join(at)} --home {afar.home}" in sofar.out


WAITS = """
import sys, service

submission = service.submit(sys.argv[1], budget="small", home=sys.argv[2], address=sys.argv[3])
result = submission.wait()
print("HOME", result.home.root)
print(result.table().to_csv())
try:
    result.rows[0].model()
except service.LocusError as error:
    print("MODEL", error)
"""


ASKS = """
import sys, time
from service.commands.remote import attached
from service.execution import submission

submission.KEPT_S = 0
submission = attached(*sys.argv[1:])
submission.home_status()
submission.home_status()
names = [job.submission_id for job in submission.client.list_jobs()]
print(sum(name.startswith("locus-asks") for name in names), "question is left")
"""


@blind
def test_its_result_travels_where_mlflow_is_a_file_over_there(cluster, afar, at):
    small = "waves@small"
    waited = afar.python(WAITS, str(afar.folder / "study.py"), str(afar.home), cluster.address)
    assert waited.code == 0, said(waited)
    cache = Path(afar.env["XDG_CACHE_HOME"]) / "locus"
    assert f"HOME {cache}" in waited.out
    there = Result.open(Home(afar.home), small)
    assert there.table().to_csv() in waited.out
    assert f"weights stayed in {afar.home} of the cluster at {cluster.address}" in said(waited)

    report = afar.type("report", small, *at)
    assert report.code == 0, said(report)
    (page,) = cache.glob(f"*/studies/{small}/report/report.html")
    assert str(page) in report.out
    events = afar.type("logs", small, "--run", "0.1", "-f", *at)
    assert "#0 seed 1 epoch 2/2" in said(events)
    asked = afar.python(ASKS, small, cluster.address)
    assert asked.lines == ["1 question is left"], said(asked)


GONE = """
import os, sys
import service
from service import results

submission = service.submit(sys.argv[1], budget="small", home=sys.argv[2], address=sys.argv[3], tracking=sys.argv[4])
there, facts = submission.wait(), submission.facts()
assert str(there.home.root) == sys.argv[2], there.home.root
os.rename(sys.argv[2], sys.argv[2] + "-moved")
assert submission.visible_home(facts) is None
results.ask = None
fetched = submission.wait()
assert fetched.home.root != there.home.root
assert fetched.table().to_csv() == there.table().to_csv()
assert fetched.mlflow_url == facts["mlflow"]
other = facts | {"archive": facts["archive"] | {"sha256": "0" * 64}}
assert results._stored(other) is None
away = facts | {"archive": facts["archive"] | {"tracking": "http://127.0.0.1:9"}}
assert results._stored(away) is None
print("READ", fetched.home.root)
"""


def test_its_result_comes_from_mlflow_where_the_home_is_gone(cluster, laptop, tmp_path):
    laptop.env["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    server = Mlflow(Home(tmp_path / "mlflow"))
    try:
        read = laptop.python(GONE, str(laptop.folder / "study.py"), str(laptop.home), cluster.address, server.address)
    finally:
        server.end()
    assert read.code == 0, said(read)
    assert f"READ {tmp_path / 'cache' / 'locus'}" in read.out


def test_a_stop_that_another_command_asked_for_is_no_failure(cluster, laptop, at):
    send = ("submit", "./study.py", "--budget", "long", "--as", "asked", "--home", str(laptop.home), *at)
    assert laptop.type(*send).code == 0
    watch = laptop.begin("logs", f"{ID}~asked", *at, "-f")
    watch.wait_for("epoch 1/40")
    ask_driver(Home(laptop.home).study(f"{ID}~asked"), Control(stop="now"))
    assert watch.end().code == 0
    status = laptop.type("status", f"{ID}~asked", *at)
    assert re.search(r"job +locus-waves-long-asked-1 +STOPPED", status.out), said(status)


def driving(home: Path) -> list[int]:
    """The processes whose environment names a home; a minute after the head they have ended by themselves."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"LOCUS_HOME={home}\0".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def test_a_cluster_that_is_gone_leaves_a_study_that_goes_on(cluster, laptop, at):
    """The last test of this file: it ends the cluster."""
    send = ("submit", "./study.py", "--budget", "long", "--as", "lost", "--home", str(laptop.home), *at)
    assert laptop.type(*send).code == 0
    watch = laptop.begin("logs", f"{ID}~lost", *at, "-f")
    watch.wait_for("epoch 1/40")
    cluster.end()
    for driver in driving(laptop.home):
        os.kill(driver, signal.SIGKILL)
    without = laptop.type("status", f"{ID}~lost", *at)
    assert without.code == 2
    assert f"no Ray cluster answers at {cluster.address}" in said(without)
    lost = laptop.type("status", "waves", *at, "--home", str(laptop.home))
    assert lost.code == 0, said(lost)
    assert "lost; 0 of 3 runs" in lost.out, said(lost)
    assert f"locus submit {ID}~lost {' '.join(at)} --home {laptop.home}" in said(lost)
    every = laptop.type("status", *at, "--home", str(laptop.home), "--json")
    assert [(one["id"], one["state"]) for one in json.loads(every.out)] == [(f"{ID}~lost", "lost")]
