"""A study of 1,000 random trials of 3 seeds that train nothing: what a trial costs, and how fast it is looked at.

Its driver runs in a process of its own, which also makes the rows that MLflow would get. Held to by processor time,
which other programs do not stretch as they do the wall clock's.
"""

import io
import subprocess
import sys
import threading
import time
from itertools import pairwise

import pytest
from rich.console import Console

from service.analysis.study_status import one_status
from service.planning.estimate import estimate_work
from service.planning.placement import Placement
from service.results import Result
from service.storage import editions
from service.storage.history import History
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from service.terminal.live import Progress

TRIALS = 1000
ID = "large@base"
DRIVE = """
import random, sys, time
from pathlib import Path
from search_spaces.space import Real, Space
from search_spaces.study import Search, Study
from service.storage.home import Home
from service.tracking.sync import SyncState
from service.storage.history import History
from tests.rooms.toy import Toy, driving
from trainables.recipe import Recipe

space = Space({"encoding.gamma": Real(low=0.1, high=40, log=True), "optimizer.lr": Real(low=1e-4, high=1e-2)})
plan = Search(space=space, trials=int(sys.argv[2]), sampler="random")
base = Recipe().put({"encoding.kind": "fourier", "optimizer.epochs": 3})
edition = Study(name="large", question="?", base=base, plan=plan, seeds=3).at()

def kib(): return int(open("/proc/self/statm").read().split()[1]) * 4

def mark(fact):
    shown.add(fact)
    if fact.fact == "planned" and fact.role == "trial" and fact.number % 100 == 0:
        begun = time.process_time()
        shown.rows("RUNNING")
        print(fact.number, begun - spent[0], kib(), time.process_time() - begun, flush=True)
        spent[0] += time.process_time() - begun

with driving(Home(Path(sys.argv[1])), edition) as driver:
    shown, spent = SyncState(History(edition)), [0.0]
    for fact in driver.journal.facts: shown.add(fact)
    driver.listeners.append(mark)
    Toy(driver, random.Random(0), max_concurrent=2).drive()
    assert driver.listener_failed is None, driver.folder.log.read_text()
print(driver.history.trial_count, time.process_time() - spent[0], kib(), 0.0)
"""


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    """The home, and a row for each hundred of trials: processor seconds so far, KiB of memory, seconds to send news."""
    home = tmp_path_factory.mktemp("large")
    said = subprocess.run([sys.executable, "-c", DRIVE, str(home), str(TRIALS)], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    return Home(home), [tuple(map(float, line.split())) for line in said.stdout.splitlines()]


@pytest.mark.benchmark
@pytest.mark.timeout(900)
def test_the_last_hundred_trials_cost_what_the_first_did(marks):
    _, rows = marks
    costs = [(after[1] - before[1]) / 100 for before, after in pairwise(rows)]
    for (number, _, kib, shown), cost in zip(rows, costs, strict=False):
        print(
            f"trial {number:4.0f}: {1000 * cost:5.1f} ms a trial, {kib / 1024:4.0f} MiB, news in {1000 * shown:.0f} ms"
        )
    memory = (rows[-1][2] - rows[1][2]) * 1.024 / (rows[-1][0] - rows[1][0])
    print(f"last hundred / first hundred: {costs[-1] / costs[0]:.2f}; memory: {memory:.1f} KB a trial")
    assert costs[-1] <= 1.3 * costs[0]
    assert memory <= 20


@pytest.mark.benchmark
@pytest.mark.timeout(900)
def test_it_is_looked_at_within_seconds(marks):
    home, _ = marks
    times = {"status": timed(lambda: one_status(home, ID)), "plan": timed(lambda: plan(home))}
    times |= {"redraw": redraw(home), "report": timed(lambda: Result.open(home, ID, None).report())}
    for name, seconds in times.items():
        print(f"{name}: {seconds:.3f} s of a processor")
    assert times["status"] <= 1.0
    assert max(times["plan"], times["report"]) <= 5.0
    assert times["redraw"] <= 0.02


def timed(action) -> float:
    begun = time.process_time()
    action()
    return time.process_time() - begun


def plan(home: Home) -> None:
    history = History.open(home, editions.stored(home, ID))
    estimate_work(history, Outcomes(home), Placement(max_concurrent=2))


def redraw(home: Home) -> float:
    """The median time of a redraw after a fact, on a screen of 100 columns and 40 lines."""
    edition = editions.stored(home, ID)
    history = History.open(home, edition)
    progress = Progress(edition, Console(file=io.StringIO(), force_terminal=True, width=100, height=40))
    progress.begin(history, threading.RLock())
    progress.live.stop()

    def draw():
        progress._news += 1
        progress.console.render_lines(progress._view())

    draw()
    return sorted(timed(draw) for _ in range(9))[4]
