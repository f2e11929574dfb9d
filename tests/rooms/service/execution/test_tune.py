"""Room: what surrounds a Ray of our own."""

from types import SimpleNamespace

import pytest

from service.execution import tune as cluster
from service.execution.machine import cores
from service.planning.placement import Placement
from service.storage.home import Home
from service.storage.journal import Ended, Started
from tests.rooms.service.execution.studies import arms, facts
from tests.rooms.toy import driving, measure, message


def test_a_run_asks_for_its_cores_and_a_groups_asker_for_none():
    alone = cluster._resources(Placement(max_concurrent=2, threads=3))
    assert alone.bundles == [{"CPU": 3.0}]
    asker = cluster._resources(Placement(max_concurrent=2, threads=3, workers=2))
    assert [set(bundle) for bundle in asker.bundles] == [{"memory"}]
    on_gpu = cluster._resources(Placement(max_concurrent=1, device="cuda"))
    assert on_gpu.bundles == [{"CPU": 1.0, "GPU": 1.0}]


def test_as_many_runs_fit_on_a_gpu_as_were_asked_for():
    """Ray rounds to 1/10,000: six times 0.1667 would be more than one GPU."""
    for runs in range(1, 200):
        share = cluster._resources(Placement(max_concurrent=runs, device="cuda", runs_per_gpu=runs)).bundles[0]["GPU"]
        assert runs * round(share * 10_000) <= 10_000 < (runs + 1) * round(share * 10_000) + runs


def test_what_a_worker_notes_is_in_the_log_once(home: Home) -> None:
    """It comes with every epoch, because the driver may not have seen the first."""
    edition = arms()
    with driving(home, edition) as driver:
        job = driver.next()
        scheduler, trial = cluster.JournalScheduler(driver), SimpleNamespace(config={"job": job.plain()})
        for epoch, note in ((1, ""), (2, "in 2 parts"), (3, "in 2 parts")):
            said = message(measure(job.run, epoch), job) | {"note": note}
            assert scheduler.on_trial_result(None, trial, said) == "CONTINUE"
        assert driver.folder.log.read_text() == f"{job.run.key}, attempt 1: in 2 parts\n"


@pytest.mark.slow
@pytest.mark.parametrize("stops", ["when it is said", "before"])
def test_runs_whose_resources_never_come_are_said_and_end_with_a_stop(home: Home, monkeypatch, stops) -> None:
    """A machine has fewer cores than the run asks for: Tune alone would wait for ever."""
    monkeypatch.setattr(cluster, "PATIENCE_S", 2.0)
    lines: list[str] = []
    with driving(home, arms()) as driver:
        driver.placement = Placement(max_concurrent=1, threads=cores() + 1)
        job, driver.stop.asked = driver.next(), stops == "before"

        def note(line: str) -> None:
            lines.append(line)
            driver.stop.asked = True

        cluster.run_on_tune(driver, job, note=note)
    asks = f"each asks Ray for {cores() + 1} CPU, which may not be free"
    said = f"no run has begun for 2 s: {asks}; Ctrl-C ends the study"
    assert lines == ([] if stops == "before" else [said])
    assert facts(home, arms(), Started)
    assert not facts(home, arms(), Ended)
