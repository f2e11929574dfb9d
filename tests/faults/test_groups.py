"""Faults: what becomes of a run whose code raises, or whose process is killed, alone and in a worker group."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from service.execution import watchdog
from service.execution.driver import Driver
from service.planning.placement import Placement
from service.storage.facts import Ended, Fact, FailedWith, Measured, Started
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.faults.small import conduct, edition
from tests.journeys.processes import titled
from trainables.cgroup import cores
from trainables.launch.errors import KILLED
from trainables.training.checkpoint import write

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1200)]


class Killer:
    """Sends a signal to one process of a name, once, when an epoch is measured."""

    def __init__(self, name: str, number: int = signal.SIGKILL, epoch: int = 1) -> None:
        self.name, self.number, self.epoch, self.killed = name, number, epoch, 0

    def __call__(self, driver: Driver, fact: Fact) -> None:
        if isinstance(fact, Measured) and fact.epoch >= self.epoch and not self.killed:
            self.killed = titled(os.getpid(), self.name)[0]
            os.kill(self.killed, self.number)


def of(facts: list[Fact], kind: type) -> list:
    return [fact for fact in facts if isinstance(fact, kind)]


def trained(folder: Path, *hear: Callable, epochs: int = 3, workers: int = 0, **more: float) -> list[Fact]:
    """The facts of a study of one run."""
    placement = Placement(max_concurrent=1, workers=workers)
    return conduct(folder, edition({"none": {}}, **{"optimizer.epochs": epochs}), placement, *hear, **more)


def outcomes(facts: list[Fact]) -> list[str]:
    return [ended.outcome for ended in of(facts, Ended)]


KILLED_BY_TITLE = [
    pytest.param("ray::RayTrainWorker", 40, 2, rf"worker .*{re.escape(KILLED)}", marks=pytest.mark.gate),
    pytest.param("ray::GroupTrial", 30, 2, re.escape(KILLED)),
    pytest.param("ray::AloneTrial", 40, 0, re.escape(KILLED)),
]
"""A worker of a group, the process that asked for the group, and one that trains alone."""


@pytest.mark.parametrize(("title", "epochs", "workers", "reason"), KILLED_BY_TITLE)
def test_a_killed_process_is_told_and_its_run_goes_on(tmp_path: Path, title, epochs, workers, reason):
    facts = trained(tmp_path, Killer(title), epochs=epochs, workers=workers)
    (failed,) = of(facts, FailedWith)
    assert re.fullmatch(reason, failed.reason)
    if title != "ray::GroupTrial":
        assert failed.counts
        assert [started.attempt for started in of(facts, Started)] == [1, 2]
    assert outcomes(facts) == ["completed"]


def test_a_group_begins_with_fewer_workers_where_not_all_have_room(tmp_path: Path):
    """This machine's Ray is asked for one core more than it has, and for two at least."""
    placement = Placement(max_concurrent=1, workers=cores() + 1, min_workers=2)
    facts = conduct(tmp_path, edition({"none": {}}), placement)
    (ended,) = of(facts, Ended)
    assert ended.outcome == "completed"
    (answer,) = Outcomes(Home(tmp_path)).of(ended.run)
    assert answer.environment["workers"] == cores()


def test_a_study_that_is_stopped_ends_its_group_after_the_epoch_and_goes_on_from_there(tmp_path: Path):
    def stop(driver: Driver, fact: Fact) -> None:
        driver.stop.asked = isinstance(fact, Measured)

    begun = trained(tmp_path, stop, epochs=30, workers=2)
    assert len(of(begun, Measured)) == 1
    assert not of(begun, FailedWith)
    assert len(list(tmp_path.glob("studies/*/**/checkpoint.pt"))) == 1
    facts = trained(tmp_path, epochs=30, workers=2)
    assert outcomes(facts) == ["completed"]
    assert [measured.epoch for measured in of(facts, Measured)] == list(range(1, 31))


@pytest.mark.parametrize("workers", [0, 2])
def test_the_reason_of_a_run_that_raises_is_its_own_error_and_it_is_not_tried_again(tmp_path: Path, workers: int):
    def spoil(driver: Driver, fact: Fact) -> None:
        if isinstance(fact, Started):
            write(Path(driver.in_flight.jobs[fact.run].folder) / "checkpoint.pt", {})

    facts = trained(tmp_path, spoil, workers=workers)
    (failed,) = of(facts, FailedWith)
    assert re.fullmatch(r"KeyError: .+ \(loop\.py, line \d+\)", failed.reason)
    assert failed.final, "another attempt would meet the same error"
    assert not of(facts, Ended)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_begins_again_after_a_damaged_checkpoint(tmp_path: Path, workers: int):
    """All workers of a group: where one began again alone, the others waited for it without end."""
    set_aside = set()

    def spoil(driver: Driver, fact: Fact) -> None:
        if isinstance(fact, Started | Measured):
            folder = Path(driver.in_flight.jobs[fact.run].folder)
            set_aside.update(file.read_text() for file in folder.glob("checkpoint.damaged"))
            if isinstance(fact, Started):
                (folder / "checkpoint.pt").write_text("no checkpoint")

    facts = trained(tmp_path, spoil, workers=workers)
    assert not of(facts, FailedWith)
    assert outcomes(facts) == ["completed"]
    assert set_aside == {"no checkpoint"}


@pytest.mark.parametrize(("workers", "name"), [(0, "ray::AloneTrial"), (2, "ray::RayTrainWorker")])
def test_a_process_that_stands_still_is_killed_and_its_run_goes_on(tmp_path: Path, monkeypatch, workers, name):
    """Ray waits for a process that was stopped (SIGSTOP) as long as it exists."""
    monkeypatch.setattr(watchdog, "SILENT_S", 10.0)
    killer = Killer(name, signal.SIGSTOP, epoch=3)
    facts = trained(tmp_path, killer, epochs=30, workers=workers)
    (failed,) = of(facts, FailedWith)
    assert re.fullmatch(r"it gave no sign of life for \d+ s, and \d s at most before: it was killed", failed.reason)
    assert failed.counts
    assert not failed.final
    assert outcomes(facts) == ["completed"]
    assert not Path(f"/proc/{killer.killed}").exists()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_takes_too_long_ends_with_its_checkpoint_and_goes_on_later(tmp_path: Path, workers):
    facts = trained(tmp_path, epochs=400, workers=workers, run_hours=1e-9)
    (failed,) = of(facts, FailedWith)
    assert failed.reason == "it took longer than --run-hours 1e-09; the same command continues it"
    assert list(tmp_path.glob("studies/*/**/checkpoint.pt"))
    before = len(of(facts, Measured))
    assert 1 <= before < 400
    again = trained(tmp_path, epochs=400, workers=workers)
    assert outcomes(again) == ["completed"]
    assert len(of(again, Measured)) == 400, "no epoch was trained again"


def test_two_groups_at_once_share_the_machine(tmp_path: Path):
    arms = {name: {"encoding.kind": name} for name in ("none", "learnable", "sinusoidal")}
    facts = conduct(tmp_path, edition(arms), Placement(max_concurrent=2, workers=1))
    assert outcomes(facts) == ["completed"] * 3
    assert not of(facts, FailedWith)
