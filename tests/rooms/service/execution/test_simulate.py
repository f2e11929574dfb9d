"""Whole simulations: every run is answered, the time follows from the schedule, and nothing is left behind."""

import itertools
import tempfile
from pathlib import Path

import pytest

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Halving, Search, Study
from service.execution.simulate import CHECKPOINT_S, EpochTime, epoch_time, simulate
from service.execution.simulation_engine import START_S, TUNE_REPORT_S, TUNE_RUN_S, FakeRuns
from service.storage.home import Home
from trainables.recipe import Recipe
from trainables.training import saving

BASE = Recipe().put({"encoding.kind": "fourier", "optimizer.epochs": 6})
SPACE = Space({"encoding.gamma": Real(low=0.1, high=40, log=True)})
EPOCH_S = 10.0
EPOCH = EpochTime(EPOCH_S, "given")


def search(trials, seeds=1, stop=None, sampler="random"):
    plan = Search(space=SPACE, trials=trials, stop=stop, sampler=sampler)
    return Study(name="fake", question="?", base=BASE, plan=plan, seeds=seeds).at()


def ablation(arms, seeds):
    plan = Ablation(arms={f"arm {gamma}": {"encoding.gamma": gamma + 0.5} for gamma in range(arms)}, baseline="arm 0")
    return Study(name="fake", question="?", base=BASE, plan=plan, seeds=seeds).at()


def timeless():
    """A driver that takes no time of its own."""
    return 0.0


def test_one_slot_trains_one_run_after_another():
    edition = ablation(3, 2)
    found = simulate(edition, 1, EPOCH, timer=timeless)
    runs = FakeRuns(edition)
    training = sum(6 * EPOCH_S * runs.pace(trial.run(seed).key) for trial in edition.arms() for seed in (0, 1))
    assert (found.trials, found.runs, found.epochs) == (3, 6, 36)
    own = 6 * (TUNE_RUN_S + START_S + 6 * TUNE_REPORT_S)
    assert found.seconds == pytest.approx(training + own)
    assert found.used == pytest.approx(training / found.seconds)


def test_as_many_slots_as_runs_train_them_side_by_side():
    edition = ablation(4, 1)
    runs = FakeRuns(edition)
    found = simulate(edition, 4, EPOCH, timer=timeless)
    slowest = max(6 * EPOCH_S * runs.pace(trial.run(0).key) for trial in edition.arms())
    assert slowest < found.seconds < slowest + 5 * (TUNE_RUN_S + START_S)


def test_runs_wait_for_a_driver_that_is_slow():
    """Each call takes 30 s: one an epoch and run, so 8 runs of 10 s an epoch cannot be held up by less."""
    slow = itertools.count(0, 30.0)
    found = simulate(ablation(8, 1), 8, EPOCH, timer=lambda: next(slow))
    assert found.seconds >= 8 * 6 * 30
    assert found.used < 0.1
    assert found.bottleneck[0] == "the driver"
    assert found.busiest.driver == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("slots", [1, 5])
def test_every_point_and_seed_of_a_search_is_trained_and_confirmed(slots):
    found = simulate(search(7, seeds=2), slots, EPOCH, timer=timeless)
    assert found.trials == 7
    assert found.runs == 7 * 2 + 5 * 2  # the best five, on fresh seeds
    assert found.epochs == 6 * found.runs
    assert not found.stopping


def test_the_driver_stops_what_the_replay_stops():
    """Two ways to the same number: the journal of a driver, and the early stopper asked directly, one run at a time."""
    found = simulate(search(40, stop=Halving(factor=2)), 1, EPOCH, timer=timeless)
    ours = next(row for row in found.stopping if row.way == "locus")
    confirmed = found.runs - 40
    assert found.epochs == ours.epochs + 6 * confirmed
    assert ours.epochs < next(row for row in found.stopping if row.way == "none").epochs == 6 * 40


def test_the_same_simulation_gives_the_same_schedule():
    first, second = (simulate(search(12, 2, Halving(), "tpe"), 4, EPOCH, timer=timeless) for _ in range(2))
    assert {**vars(first), "took": 0, "journal_bytes": 0} == {**vars(second), "took": 0, "journal_bytes": 0}


def test_runs_that_need_others_are_simulated_too():
    base = BASE.put({"optimizer.epochs": 2})
    arms = {"fresh": {}, "pretrained": {"init": {"kind": "from_trial", "values": {"data.task": "distance"}}}}
    study = Study(name="fake", question="?", base=base, plan=Ablation(arms=arms, baseline="fresh"), seeds=2)
    found = simulate(study.at(), 3, EPOCH, timer=timeless)
    assert found.runs == 4 + 2


def test_no_time_follows_from_an_epoch_that_nobody_measured(tmp_path):
    study = Study(name="fake", question="?", base=BASE, plan=Search(space=SPACE, trials=4), seeds=1)
    unknown = epoch_time(study.at(), Home(tmp_path))
    assert unknown.source == ""
    found = simulate(study.at(), 2, unknown, timer=timeless)
    assert (found.plain()["seconds"], found.plain()["epoch_s"]) == (None, None)
    stated = Study(**{**dict(study), "minutes": {"base": 30.0}}).at()
    epoch = epoch_time(stated, Home(tmp_path))
    assert epoch.source == "30 min on 2 cores, as it says"
    assert simulate(stated, 2, epoch, timer=timeless).seconds == pytest.approx(30 * 60, rel=0.1)
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_and_progress_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = []
    simulate(search(5), 2, EPOCH, look=lambda done, asked: told.append((done, asked)), timer=timeless)
    assert told[4] == (5, 5)
    assert not [path for path in Path(tmp_path).iterdir() if path.name.startswith("locus")]


def test_the_interval_of_checkpoints_is_that_of_training():
    assert CHECKPOINT_S == saving.CHECKPOINT_S
