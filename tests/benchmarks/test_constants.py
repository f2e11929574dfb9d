"""What Ray Tune and an MLflow server take: the times of `deploy/sizing.md`.

They are printed, and held to within a factor: another machine has others.
"""

import random
import shutil
import subprocess
import sys
import time
from statistics import median

import pytest

from search_spaces.space import Real, Space
from search_spaces.study import Edition, Search, Study
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import read
from service.tracking.store import Store, experiment_of
from service.tracking.sync import SyncState
from tests.deploy.mlflow_served import USER, mlflow_served
from tests.e2e.postgres import postgres
from tests.rooms.toy import Toy, driving
from trainables.recipe import Recipe

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]
TUNE_RUN_S, TUNE_REPORT_S, START_S, MLFLOW_ROW_S = 0.012, 0.002, 0.07, 0.3
"""A run's begin and end in Ray Tune, an epoch's report there, a run's start, and an MLflow row with its curve."""
FACTOR = 4
"""How far another machine's times may lie from these."""
TUNE = """
import sys, time
from pathlib import Path
from service.execution.tune import run_on_tune
from service.planning.placement import Placement
from service.storage.home import Home
from tests.benchmarks.test_constants import search
from tests.rooms.toy import driving

edition = search(int(sys.argv[2]), int(sys.argv[3]))
with driving(Home(Path(sys.argv[1])), edition, Placement(max_concurrent=2)) as driver:
    begun = time.thread_time()
    run_on_tune(driver, driver.next())
    print(time.thread_time() - begun)
"""


def search(trials: int, epochs: int) -> Edition:
    """Random points, each trained for a moment."""
    values = {"data.train_size": 40, "data.val_size": 20, "data.test_size": 20, "model.depth": 1}
    base = Recipe().put({"encoding.kind": "fourier", "optimizer.epochs": epochs, **values})
    plan = Search(space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}), trials=trials, sampler="random")
    return Study(name="short", question="?", base=base, plan=plan, seeds=1, keep=()).at()


def near(measured: float, used: float) -> bool:
    return used / FACTOR <= measured <= used * FACTOR


def test_what_ray_tune_takes_of_the_driver(tmp_path):
    """From three studies: 23 and 63 runs of 2 epochs, and 23 of 42. The last three runs of each are confirmations."""
    seconds, starts = {}, []
    for trials, epochs in ((20, 2), (60, 2), (20, 42)):
        home = tmp_path / f"{trials}-{epochs}"
        words = [sys.executable, "-c", TUNE, str(home), str(trials), str(epochs)]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        seconds[trials, epochs] = float(done.stdout.split()[-1])
        starts += started(Home(home), search(trials, epochs).id)
    report = (seconds[20, 42] - seconds[20, 2]) / (23 * 40)
    run = (seconds[60, 2] - seconds[20, 2]) / 40 - 2 * report
    start = median(starts)
    print(f"a run {run:.3f} s, a report {1000 * report:.1f} ms, from a run's start to its first step {start:.2f} s")
    assert near(run, TUNE_RUN_S)
    assert near(report, TUNE_REPORT_S)
    assert near(start, START_S)


def started(home: Home, id: str) -> list[float]:
    """For each run but the first two, whose processes import torch: seconds until its first epoch began."""
    facts = read(home.study(id).journal)[0]
    begun = {fact.run: fact.time for fact in facts if fact.fact == "started"}
    firsts = [fact for fact in facts if fact.fact == "measured" and fact.epoch == 1]
    return [fact.time - begun[fact.run] - fact.values["time/epoch_s"] for fact in firsts if fact.run in [*begun][2:]]


@pytest.mark.skipif(not shutil.which("initdb"), reason="wants PostgreSQL")
def test_what_a_row_takes_at_a_server_with_postgresql(tmp_path, monkeypatch):
    for name, value in USER.items():
        monkeypatch.setenv(name, value)
    home, edition = Home(tmp_path / "home"), search(20, 9)
    with driving(home, edition) as driver:
        state = SyncState(History(edition))
        driver.listeners.append(state.add)
        Toy(driver, random.Random(0), max_concurrent=4).drive()
    with postgres() as database, mlflow_served(database, tmp_path) as tracking:
        store = Store(tracking, home.named(), edition.id, experiment_of(home, edition))
        store.make(None, is_own=False)
        begun = time.monotonic()
        store.put(state.rows("FINISHED"))
        seconds, rows = time.monotonic() - begun, len(store.shown)
    print(f"{rows} rows: {1000 * seconds / rows:.0f} ms a row")
    assert near(seconds / rows, MLFLOW_ROW_S)
