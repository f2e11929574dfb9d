"""Code of a user's own that raises, ends its process, gives NaN or eats memory: each run has its reason, none hangs."""

import re

import pytest

from search_spaces.study import Edition
from service.storage import editions
from service.storage.home import Home
from service.tracking.store import look_up
from tests.faults.killed import facts, numbers, of
from tests.journeys.files import SMALL
from tests.journeys.terminal import Terminal
from trainables.launch.errors import KILLED

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1200)]

FAULTY = (
    SMALL
    + '''
import os
import resource
import sys
import time

import numpy as np

CALLS = 0


def raises(code):
    raise ValueError("the second epoch never works")


def eats(code):
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**30, resource.RLIM_INFINITY))
    return code * len(bytearray(8 * 2**30))


def eats_slowly(code, eaten=[]):
    while len(eaten) < 60:
        eaten.append(os.urandom(1) * 100 * 2**20)
        time.sleep(0.1)
    return code


FAULTS = {
    "none": lambda code: code,
    "raises": raises,
    "exits": lambda code: os._exit(7),
    "leaves": lambda code: sys.exit("enough"),
    "nan": lambda code: code * float("nan"),
    "inf": lambda code: code / 0,
    "numpy": lambda code: code * np.float64(1),
    "eats": eats,
    "eats slowly": eats_slowly,
}


class Faulty(CodeSpec):
    """A code that goes wrong in the second epoch; an epoch computes it 21 times."""

    kind: str = Field(default="mine.py:Faulty", init=False)
    fault: str = Field(default="none", description="what goes wrong")

    def params(self, dim, grid):
        global CALLS
        CALLS = 0
        return linear("project", 2, dim)

    def code(self, p, at):
        global CALLS
        CALLS += 1
        code = at.prefixed(p.linear("project", at.centered))
        return FAULTS[self.fault](code) if CALLS > 30 else code


study = Study(
    name="faulty",
    question="What goes wrong?",
    base=BASE.put({"data.train_size": 400, "optimizer.batch_size": 20, "optimizer.epochs": 3}),
    plan=Ablation(arms={name: {"encoding": Faulty(fault=name)} for name in ARMS}, baseline="none"),
    seeds=1,
)
'''
)
ARMS = ("none", "raises", "exits", "leaves", "nan", "inf", "numpy", "eats")
ID = "faulty@base"
REASONS = {
    "raises": r"ValueError: the second epoch never works \(mine\.py, line \d+\)",
    "exits": re.escape(KILLED),
    "leaves": r"its process ended without an answer",
    "eats": r"MemoryError(: .*)? \(mine\.py, line \d+\)|" + re.escape(KILLED),
}


def faulty(folder, arms, **env):
    terminal = Terminal(folder, **env)
    (folder / "mine.py").write_text(FAULTY.replace("in ARMS", f"in {arms!r}"))
    return terminal


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A terminal in which the study with all faults was run once."""
    with faulty(tmp_path_factory.mktemp("faulty"), ARMS) as terminal:
        terminal.done = terminal.type("run", "./mine.py", "-v")
        yield terminal


def by_arm(terminal, told) -> dict:
    """A fact's arm, by the key of its run."""
    edition: Edition = editions.stored(Home(terminal.home), ID)
    keys = {run.key: arm.name for arm in edition.arms() for run in arm.runs(1)}
    return {keys[fact.run]: fact for fact in told}


def test_each_run_has_its_outcome_and_the_others_are_unharmed(ran, tally):
    assert ran.done.code == 1, ran.done.out + ran.done.err
    assert "Traceback" not in ran.done.out + ran.done.err
    told = facts(ran.home, ID)
    outcomes = {arm: fact.outcome for arm, fact in by_arm(ran, of(told, "ended")).items()}
    assert outcomes == {"none": "completed", "numpy": "completed", "nan": "diverged", "inf": "diverged"}
    curves = numbers(told)
    arms = {arm: curves[fact.run] for arm, fact in by_arm(ran, of(told, "measured")).items()}
    assert arms["numpy"] == arms["none"]
    assert {arm: len(curve) for arm, curve in arms.items()} == {
        arm: 3 if arm in ("none", "numpy") else 1 for arm in ARMS
    }
    for _ in ARMS:
        tally()


def test_the_reason_is_in_the_journal_in_status_and_in_mlflow(ran):
    told = facts(ran.home, ID)
    failed = by_arm(ran, of(told, "failed"))
    assert failed.keys() == REASONS.keys()
    status = " ".join(ran.type("status", ID).out.split())
    store = look_up(Home(ran.home), editions.stored(Home(ran.home), ID))
    shown = {place[1]: row for place, row in store.shown.items() if place[0] == "run"}
    for number, arm in enumerate(ARMS):
        if arm in REASONS:
            reason = failed[arm].reason
            assert re.fullmatch(REASONS[arm], reason)
            assert reason in status
            assert shown[str(number)].status == "FAILED"
            assert reason in shown[str(number)].tags.values()


def test_an_error_of_code_is_tried_once_and_a_dead_process_twice(ran):
    failures = of(facts(ran.home, ID), "failed")
    tries = {arm: [fact.run for fact in failures].count(one.run) for arm, one in by_arm(ran, failures).items()}
    assert tries == {"raises": 1, "exits": 2, "leaves": 2, "eats": 2}


def test_what_is_there_is_consistent_and_nothing_is_left_running(ran):
    ran.do("verify", ID)
    ran.begun[0].wait_until_gone()


def test_a_process_that_fills_its_node_is_killed_by_ray_and_its_run_has_the_reason(tmp_path, tally):
    total, free = (_memory(name) for name in ("MemTotal", "MemAvailable"))
    if free < 10 * 2**30:
        pytest.skip(f"wants 10 GiB of free memory, got {free / 2**30:.1f}")
    threshold = f"{1 - (free - 4 * 2**30) / total:.3f}"
    with faulty(tmp_path, ("none", "eats slowly"), RAY_memory_usage_threshold=threshold) as terminal:
        done = terminal.type("run", "./mine.py", "--max-concurrent", "1")
        assert "Traceback" not in done.out + done.err
        told = facts(terminal.home, ID)
        failed = by_arm(terminal, of(told, "failed"))
        assert failed.keys() == {"eats slowly"}
        assert failed["eats slowly"].reason == "its process was killed, because its node ran out of memory"
        done_arms = by_arm(terminal, of(told, "ended")).keys()
        assert done.code == (0 if "eats slowly" in done_arms else 1), "another program may have freed memory meanwhile"
        assert "none" in done_arms
        terminal.do("verify", ID)
        tally()


def _memory(name: str) -> int:
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{name}:"))
