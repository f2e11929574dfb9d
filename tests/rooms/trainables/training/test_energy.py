"""Energy from the counters of a machine: files as Linux shows them, written here."""

import os
from pathlib import Path

import pytest
import torch

from tests.rooms.trainables.training.small_runs import CLOCKED, folder, small
from trainables.data.splits_torch import Reading
from trainables.training import loop
from trainables.training.distributed import SINGLE
from trainables.training.energy import EPOCH_J, EVERY_S, EnergyMeter
from trainables.training.saving import Progress

CPU = torch.device("cpu")
RANGE_J = 262_000


class Machine:
    """A folder of counters, and a clock."""

    def __init__(self, root: Path) -> None:
        self.root, self.now = root, 0.0
        zones = {
            "intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram",
            "intel-rapl:1": "package-1", "intel-rapl:2": "psys", "intel-rapl-mmio:0": "package-0",
            "intel-rapl": "control",
        }  # fmt: skip
        for zone, name in zones.items():
            (root / zone).mkdir()
            (root / zone / "name").write_text(f"{name}\n")
            (root / zone / "max_energy_range_uj").write_text(f"{RANGE_J * 1_000_000}\n")
            self.show(zone, 5.0)

    def show(self, zone: str, joules: float) -> None:
        (self.root / zone / "energy_uj").write_text(f"{round(joules * 1e6)}\n")

    def meter(self, **given) -> EnergyMeter:
        return EnergyMeter(CPU, rapl=self.root, clock=lambda: self.now, **given)


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


def test_packages_and_memory_are_added_and_their_parts_are_not(machine):
    meter = machine.meter()
    meter.begin(0.0)
    for zone in ("intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1", "intel-rapl:2", "intel-rapl-mmio:0"):
        machine.show(zone, 15.0)
    machine.show("intel-rapl:0:1", 6.5)
    assert meter.end() == {EPOCH_J: pytest.approx(10 + 10 + 1.5)}


def test_it_goes_on_from_what_is_known(machine):
    meter = machine.meter()
    meter.begin(100.0)
    machine.show("intel-rapl:0", 7.0)
    assert meter.end() == {EPOCH_J: pytest.approx(102.0)}
    meter.begin(None)
    assert meter.end() == {}


def test_a_counter_that_begins_again_is_read_in_time(machine):
    meter = machine.meter()
    machine.show("intel-rapl:0", RANGE_J - 10)
    meter.begin(0.0)
    machine.now += EVERY_S
    machine.show("intel-rapl:0", 20)
    meter.sample()
    machine.now += EVERY_S
    machine.show("intel-rapl:0", 30)
    assert meter.end() == {EPOCH_J: pytest.approx(40)}


def test_without_readings_for_too_long_it_is_not_known(machine):
    meter = machine.meter()
    meter.begin(0.0)
    machine.now += 300  # a kilowatt fills the counter in 262 s
    assert meter.end() == {}
    meter.begin(0.0)
    for _ in range(20):
        machine.now += EVERY_S
        meter.sample()
    assert meter.end() == {EPOCH_J: 0.0}


def test_what_cannot_be_read_is_not_known(machine, tmp_path):
    assert EnergyMeter(CPU, rapl=tmp_path / "none").end() == {}
    several = machine.meter(workers=2)
    several.begin(0.0)
    assert several.end() == {}
    meter = machine.meter()
    meter.begin(0.0)
    (machine.root / "intel-rapl:1" / "energy_uj").unlink()
    assert meter.end() == {}
    if os.geteuid() != 0:
        (machine.root / "intel-rapl:0" / "energy_uj").chmod(0)
        assert machine.meter().end() == {}


def test_a_run_measures_its_epochs_and_its_numbers_stay(machine, tmp_path, monkeypatch):
    run, empty = small(), folder(tmp_path, "no counters")
    monkeypatch.setattr(loop, "EnergyMeter", lambda device, workers: EnergyMeter(device, workers, rapl=empty))
    plain = list(loop.train(run, folder(tmp_path, "plain")))
    read = iter(range(10**6))

    class Counted(EnergyMeter):
        def __init__(self, device, workers):
            super().__init__(device, workers, rapl=machine.root)
            counter = self._counters[0]
            self._counters = [type(counter)(lambda: float(next(read)))]

    monkeypatch.setattr(loop, "EnergyMeter", Counted)
    measured = list(loop.train(run, folder(tmp_path, "measured")))
    assert [one.values[EPOCH_J] for one in measured] == [2.0] * len(measured), "one step to learn, one to evaluate"
    assert all(EPOCH_J not in one.values for one in plain)
    for before, now in zip(plain, measured, strict=True):
        kept = [{name: value for name, value in one.values.items() if name not in CLOCKED} for one in (before, now)]
        assert kept[0] == kept[1]


def test_an_epoch_of_which_a_part_was_trained_before_has_no_energy(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "EnergyMeter", lambda device, workers: EnergyMeter(device, workers, rapl=machine.root))
    training = loop.Training(small(), "cpu", {}, SINGLE, Reading(None))
    whole = training.learn(1)
    assert whole[EPOCH_J] == 0.0
    rest = training.learn(1, Progress(steps=2, loss=1.0, seconds=3.0))
    assert EPOCH_J not in rest
    assert EPOCH_J in training.evaluate(1, whole)
    assert EPOCH_J not in training.evaluate(1, rest)
