"""Room: what watches the runs, on a real Ray: runs that never begin, and processes that stand still."""

import threading

import pytest
from ray._private import services

from service.execution import watchdog
from service.execution.tune import run_on_tune
from service.planning.placement import Placement
from service.storage.facts import Ended, Started
from service.storage.home import Home
from tests.rooms.service.execution.studies import arms, facts
from tests.rooms.toy import driving
from trainables.cgroup import cores


@pytest.mark.slow
@pytest.mark.parametrize("stops", ["when it is said", "before"])
def test_runs_whose_resources_never_come_are_said_and_end_with_a_stop(home: Home, monkeypatch, stops) -> None:
    """A machine has fewer cores than the run asks for: Tune alone would wait for ever."""
    monkeypatch.setattr(watchdog, "PATIENCE_S", 2.0)
    lines: list[str] = []
    with driving(home, arms()) as driver:
        driver.placement = Placement(max_concurrent=1, threads=cores() + 1)
        job, driver.stop.asked = driver.next(), stops == "before"

        def note(line: str) -> None:
            lines.append(line)
            driver.stop.asked = True

        run_on_tune(driver, job, note=note)
    asks = f"each asks Ray for {cores() + 1} CPU, which may not be free"
    said = f"no run has begun for 2 s: {asks}; Ctrl-C ends the study"
    assert lines == ([] if stops == "before" else [said])
    assert facts(home, arms(), Started)
    assert not facts(home, arms(), Ended)


@pytest.mark.slow
def test_a_stop_while_ray_starts_lets_it_start_and_end(home: Home, monkeypatch) -> None:
    """Without its GCS a start that asks for something ends this process a minute later: a notebook's, too."""
    import psutil  # Ray brings it along

    start = services.start_gcs_server
    with driving(home, arms()) as driver:

        def started(*words, **more):
            done = start(*words, **more)
            driver.stop.asked = True
            return done

        monkeypatch.setattr(services, "start_gcs_server", started)
        job = driver.next()
        run_on_tune(driver, job)
        assert driver.stop
    assert "apart" not in {thread.name for thread in threading.enumerate()}
    assert not [child for child in psutil.Process().children() if "gcs_server" in child.name()]
