"""Faults: what becomes of a run whose code raises, or whose process is killed, alone and in a worker group."""

import os
import re
import signal
from pathlib import Path

import pytest

from service.execution import watchdog
from service.execution.driver import Driver
from service.planning.placement import Placement
from service.storage.facts import Ended, Fact, FailedWith, Measured, Started
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.faults.small import conduct, edition, processes
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
            self.killed = processes(self.name)[0]
            os.kill(self.killed, self.number)


def of(facts: list[Fact], kind: type) -> list:
    return [fact for fact in facts if isinstance(fact, kind)]


@pytest.mark.gate
def test_a_killed_worker_fails_the_group_which_is_tried_again_and_goes_on(tmp_path: Path):
    killer = Killer("ray::RayTrainWorker")
    facts = conduct(
        tmp_path, edition({"none": {}}, **{"optimizer.epochs": 40}), Placement(max_concurrent=1, workers=2), killer
    )
    (failed,) = of(facts, FailedWith)
    assert failed.reason.startswith("worker ")
    assert failed.reason.endswith(KILLED)
    assert failed.counts
    assert [started.attempt for started in of(facts, Started)] == [1, 2]
    assert [ended.outcome for ended in of(facts, Ended)] == ["completed"]


def test_a_group_begins_with_fewer_workers_where_not_all_have_room(tmp_path: Path):
    """This machine's Ray is asked for one core more than it has, and for two at least."""
    placement = Placement(max_concurrent=1, workers=cores() + 1, min_workers=2)
    facts = conduct(tmp_path, edition({"none": {}}), placement)
    (ended,) = of(facts, Ended)
    assert ended.outcome == "completed"
    (answer,) = Outcomes(Home(tmp_path)).of(ended.run)
    assert answer.environment["workers"] == cores()


def test_a_killed_asker_takes_its_group_with_it_and_the_next_finds_room(tmp_path: Path):
    killer = Killer("ray::GroupTrial")
    facts = conduct(
        tmp_path, edition({"none": {}}, **{"optimizer.epochs": 30}), Placement(max_concurrent=1, workers=2), killer
    )
    (failed,) = of(facts, FailedWith)
    assert failed.reason == KILLED
    assert [ended.outcome for ended in of(facts, Ended)] == ["completed"]


def test_a_study_that_is_stopped_ends_its_group_after_the_epoch_and_goes_on_from_there(tmp_path: Path):
    study = edition({"none": {}}, **{"optimizer.epochs": 30})

    def stop(driver: Driver, fact: Fact) -> None:
        driver.stop.asked = isinstance(fact, Measured)

    begun = conduct(tmp_path, study, Placement(max_concurrent=1, workers=2), stop)
    assert len(of(begun, Measured)) == 1
    assert not of(begun, FailedWith)
    checkpoints = list(Home(tmp_path).study(study.id).root.rglob("checkpoint.pt"))
    assert len(checkpoints) == 1
    facts = conduct(tmp_path, study, Placement(max_concurrent=1, workers=2))
    assert [ended.outcome for ended in of(facts, Ended)] == ["completed"]
    assert [measured.epoch for measured in of(facts, Measured)] == list(range(1, 31))


def test_a_killed_process_is_told_and_tried_again(tmp_path: Path):
    killer = Killer("ray::AloneTrial")
    facts = conduct(tmp_path, edition({"none": {}}, **{"optimizer.epochs": 40}), Placement(max_concurrent=1), killer)
    (failed,) = of(facts, FailedWith)
    assert failed.reason == KILLED
    assert [ended.outcome for ended in of(facts, Ended)] == ["completed"]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_reason_of_a_run_that_raises_is_its_own_error_and_it_is_not_tried_again(tmp_path: Path, workers: int):
    def spoil(driver: Driver, fact: Fact) -> None:
        if isinstance(fact, Started):
            write(Path(driver.in_flight.jobs[fact.run].folder) / "checkpoint.pt", {})

    facts = conduct(tmp_path, edition({"none": {}}), Placement(max_concurrent=1, workers=workers), spoil)
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

    facts = conduct(tmp_path, edition({"none": {}}), Placement(max_concurrent=1, workers=workers), spoil)
    assert not of(facts, FailedWith)
    assert [ended.outcome for ended in of(facts, Ended)] == ["completed"]
    assert set_aside == {"no checkpoint"}


@pytest.mark.parametrize(("workers", "name"), [(0, "ray::AloneTrial"), (2, "ray::RayTrainWorker")])
def test_a_process_that_stands_still_is_killed_and_its_run_goes_on(tmp_path: Path, monkeypatch, workers, name):
    """Ray waits for a process that was stopped (SIGSTOP) as long as it exists."""
    monkeypatch.setattr(watchdog, "SILENT_S", 10.0)
    killer = Killer(name, signal.SIGSTOP, epoch=3)
    facts = conduct(
        tmp_path,
        edition({"none": {}}, **{"optimizer.epochs": 30}),
        Placement(max_concurrent=1, workers=workers),
        killer,
    )
    (failed,) = of(facts, FailedWith)
    assert re.fullmatch(r"it gave no sign of life for \d+ s, and \d s at most before: it was killed", failed.reason)
    assert failed.counts
    assert not failed.final
    assert [ended.outcome for ended in of(facts, Ended)] == ["completed"]
    assert not Path(f"/proc/{killer.killed}").exists()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_takes_too_long_ends_with_its_checkpoint_and_goes_on_later(tmp_path: Path, workers):
    study = edition({"none": {}}, **{"optimizer.epochs": 400})
    placement = Placement(max_concurrent=1, workers=workers)
    facts = conduct(tmp_path, study, placement, run_hours=1e-9)
    (failed,) = of(facts, FailedWith)
    assert failed.reason == "it took longer than --run-hours 1e-09; the same command continues it"
    assert list(Home(tmp_path).study(study.id).root.rglob("checkpoint.pt"))
    before = len(of(facts, Measured))
    assert 1 <= before < 400
    again = conduct(tmp_path, study, placement)
    assert [ended.outcome for ended in of(again, Ended)] == ["completed"]
    assert len(of(again, Measured)) == 400, "no epoch was trained again"


def test_two_groups_at_once_share_the_machine(tmp_path: Path):
    arms = {name: {"encoding.kind": name} for name in ("none", "learnable", "sinusoidal")}
    facts = conduct(tmp_path, edition(arms), Placement(max_concurrent=2, workers=1))
    assert [ended.outcome for ended in of(facts, Ended)] == ["completed"] * 3
    assert not of(facts, FailedWith)
