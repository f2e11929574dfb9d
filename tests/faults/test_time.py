"""A clock that is set back, a callback that sleeps, a storm of short trials: no number changes, and nothing hangs."""

import itertools
import os
import signal
import time
from pathlib import Path

import pytest

from service.execution.watchdog import Attending
from service.planning.placement import Placement
from tests.faults.killed import ended, facts, measured_once, numbers, of, recovery_s, require_whole, shared
from tests.faults.small import conduct, edition
from tests.journeys.files import SMALL
from tests.journeys.processes import TRIAL, titled
from tests.journeys.terminal import ROOT

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1200)]

CLOCK = """
import os, pathlib, time
if "OFFSET" in os.environ:
    real, nanoseconds, file = time.time, time.time_ns, pathlib.Path(os.environ["OFFSET"])
    time.time = lambda: real() + float(file.read_text())
    time.time_ns = lambda: nanoseconds() + int(float(file.read_text()) * 10**9)
"""
"""A `sitecustomize.py`: the time of day of every Python process, Ray's too. Under libfaketime Ray does not start."""
MANY = (
    SMALL
    + """
from search_spaces.study import Score

study = Study(
    name="storm",
    question="How far?",
    base=BASE.put(
        {"optimizer.epochs": 6, "data.task": "distance", "data.train_size": 400, "data.val_size": 300}
    ),
    plan=Search(
        space=Space({"encoding.gamma": Real(low=0.1, high=30.0, log=True)}),
        first=({"encoding.gamma": 2.0},),
        trials=30,
        stop=Halving(factor=3),
    ),
    score=Score("val/r2"),
    seeds=2,
)
"""
)
"""A score that no two trials share, so that some are stopped: 11 of 30. Five must end first, and five go on."""
STORM = ("run", "./study.py", "-v", "--max-concurrent", "2")


def test_the_clock_is_set_back_by_an_hour(terminals, tmp_path, tally):
    """For all Python processes; the clock that only counts goes on, as on a real machine."""
    offset, command = tmp_path / "offset", ("run", "./study.py", "-v", "--budget", "long")
    set_clock(offset, 0)
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(CLOCK)
    calm, hurt = terminals("calm"), terminals("hurt")
    calm.do(*command)
    clock = {"PYTHONPATH": f"{tmp_path / 'clock'}:{ROOT}", "OFFSET": str(offset)}
    running = hurt.begin(*command, **clock)
    running.wait_for("epoch 7/40")
    set_clock(offset, -3600)
    done = running.end()
    assert done.code == 0, done.out + done.err
    told = facts(hurt.home, "waves@long")
    times = [fact.time for fact in told]
    assert min(later - before for before, later in itertools.pairwise(times)) < -3000, "the clock went back"
    require_whole(hurt, "waves@long", numbers(facts(calm.home, "waves@long")))
    assert not of(told, "failed")
    for words in (("status", "waves"), command):
        hurt.do(*words)
    tally(0)


def set_clock(file: Path, seconds: float) -> None:
    """Writes the file whole, for processes read it at any moment."""
    draft = file.with_suffix(".draft")
    draft.write_text(str(seconds))
    draft.replace(file)


def test_a_storm_of_thirty_trials_with_two_dead_processes(terminals, tally):
    """Points depend on the order in which runs end, so the two searches share some runs and not all."""
    calm, hurt = terminals("calm", MANY), terminals("hurt", MANY)
    calm.do(*STORM)
    running, kills = hurt.begin(*STORM), []
    for count in (8, 16):
        running.wait_for(f"#{count} ")
        pid = titled(running.process.pid, *TRIAL)[0]
        os.kill(pid, signal.SIGKILL)
        kills.append(time.time())
    done = running.end()
    assert done.code == 0, done.out + done.err
    told, right = facts(hurt.home, "storm@base"), facts(calm.home, "storm@base")
    assert len([fact for fact in of(told, "planned") if fact.role == "trial"]) == 30
    left = {fact.run: fact.epoch for fact in of(told, "stopped")}  # at epoch 0: left out of the race
    stopped = {run for run, epoch in left.items() if epoch}
    assert len(left) >= 5, "trials are stopped in mid-storm"
    assert not left.keys() & ended(told).keys()
    assert {fact.run for fact in of(told, "started")} == stopped | ended(told).keys()
    assert len(shared(numbers(told), numbers(right))) >= 4
    assert measured_once(told)
    hurt.do("verify", "storm")
    for begun in kills:
        tally(None, recovery_s(told, begun))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_callback_of_tune_sleeps_for_five_seconds(tmp_path, monkeypatch, tally, workers):
    """Several times, also when a run has just ended: Ray Train's own reports would wait for ever there."""
    study, placement = (
        edition({"none": {}, "wave": {"encoding.kind": "fourier"}}),
        Placement(max_concurrent=1, workers=workers),
    )
    calm = numbers(conduct(tmp_path / "calm", study, placement))
    naps: list[float] = []
    attend = Attending.on_step_end

    def sleepy(self, iteration, trials, **info) -> None:
        attend(self, iteration, trials, **info)
        if any(trial.is_finished() or trial.last_result for trial in trials) and len(naps) < 5:
            naps.append(5.0)
            time.sleep(5)  # the fault itself

    monkeypatch.setattr(Attending, "on_step_end", sleepy)
    told = conduct(tmp_path / "hurt", study, placement)
    assert len(naps) == 5
    assert numbers(told) == calm
    assert [*ended(told).values()] == ["completed"] * 2
    assert not of(told, "failed")
    tally(0)
