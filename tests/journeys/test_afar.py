"""A study whose home the laptop does not see: its job is watched and stopped, and its result is fetched."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from service.execution.signals import Control, ask_driver
from service.results import Result, compare
from service.storage.home import Home

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


@blind
def test_its_job_is_watched_and_stopped_and_what_it_has_is_fetched(afar, at):
    slow = ("--set", "data.train_size=10000", "--set", "optimizer.batch_size=4", "--as", "slow")  # an epoch of 10 s
    job = "locus-waves-long-slow-1"
    afar.do("submit", "./study.py", "--budget", "long", *slow, "--home", str(afar.home), *at)
    watch = afar.begin("logs", SLOW, *at, "-f")
    watch.wait_for("epoch 1/40")
    (found,) = json.loads(afar.type("status", SLOW, *at, "--json").out)
    assert found == {"study": SLOW, "job": job, "job_state": "RUNNING", "home": str(afar.home)}
    every = afar.type("status", *at)
    assert re.search(rf"{SLOW} +{job} +RUNNING +{afar.home}", every.out), every.said
    shown = afar.type("status", "waves", *at)
    assert re.search(r"last line +\d\d:\d\d  #\d seed \d ", shown.out), shown.said
    assert f"locus stop {SLOW} {' '.join(at)} --home {afar.home}" in shown.out

    stopped = afar.type("stop", SLOW, *at)
    assert f"{SLOW}  STOPPED  job {job}\n" in stopped.out, stopped.said
    assert watch.end().code == 0
    assert not Home(afar.home).study(SLOW).driven
    report = afar.do("report", SLOW, *at)
    (page,) = (Path(afar.env["XDG_CACHE_HOME"]) / "locus").glob(f"*/studies/{SLOW}/report/report.html")
    here = Home(page.parents[3])
    assert f"find the study by --home {here.root}" in report.said
    listed = afar.type("status", SLOW, "--home", str(here.root), "--json")
    assert json.loads(listed.out)[0]["state"] == "unfinished", listed.said


WAITS = """
import sys, service

submission = service.submit(sys.argv[1], budget="small", home=sys.argv[2], address=sys.argv[3])
result = submission.wait()
print("HOME", result.home.root)
try:
    result.rows[0].model()
except service.LocusError as error:
    print("MODEL", error)
"""


@blind
def test_results_are_fetched_into_one_home_here(cluster, afar, at):
    small = "waves@small"
    waited = afar.python(WAITS, str(afar.folder / "study.py"), str(afar.home), cluster.address)
    assert waited.code == 0, waited.said
    (there,) = re.findall(r"HOME (.*)", waited.out)
    assert f"weights stayed in {afar.home} of the cluster at {cluster.address}" in waited.said
    other = ("--set", "optimizer.epochs=1", "--as", "other", "--home", str(afar.home), *at)
    afar.do("submit", "./study.py", "--budget", "small", *other)
    afar.do("logs", f"{small}~other", *at, "-f")
    report = afar.type("report", f"{small}~other", *at)
    assert f"find the study by --home {there}" in report.said
    here, over_there = Home(Path(there)), Home(afar.home)
    for id in (small, f"{small}~other"):
        assert Result.open(here, id).table().to_csv() == Result.open(over_there, id).table().to_csv()
    both = [compare(home, small, f"{small}~other").table().to_csv() for home in (here, over_there)]
    assert both[0] == both[1]


def test_a_stop_that_another_command_asked_for_is_no_failure(cluster, laptop, at):
    send = ("submit", "./study.py", "--budget", "long", "--as", "asked", "--home", str(laptop.home), *at)
    laptop.do(*send)
    watch = laptop.begin("logs", f"{ID}~asked", *at, "-f")
    watch.wait_for("epoch 1/40")
    ask_driver(Home(laptop.home).study(f"{ID}~asked"), Control(stop="now"))
    assert watch.end().code == 0
    status = laptop.type("status", f"{ID}~asked", *at)
    assert re.search(r"asked +STOPPED +job locus-waves-long-asked-1", status.out), status.said
