"""The verbs for a study that runs: an asked driver is no mistake."""

import threading

from typer.testing import CliRunner

from service.cli import app
from service.execution.signals import take_request
from service.storage.home import Home
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import conduct, driving
from tests.waiting import until


def typed(*words: str, home: Home | None = None):
    return CliRunner().invoke(app, list(words), env={"LOCUS_HOME": str(home.root)} if home else {})


def test_a_stop_reaches_the_driver(home) -> None:
    with driving(home, arms()) as driver:
        found = []

        def read() -> None:
            until(lambda: found.extend(filter(None, [take_request(driver.folder)])) or found)

        reader = threading.Thread(target=read)
        reader.start()
        done = typed("stop", "arms", home=home)
        reader.join()
    assert [asked.stop for asked in found] == ["after the epoch"]
    assert "was asked to stop each run after its epoch" in " ".join(done.output.split())


def test_logs_print_the_events_of_a_study(tmp_path) -> None:
    conduct(home := Home(tmp_path), arms())
    assert typed("logs", "arms", "--run", "1.0", home=home).output.count("#1 seed 0 epoch") == 6
