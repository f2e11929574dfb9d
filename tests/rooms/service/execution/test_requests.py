"""Room: what a command asks of the driver of a study that runs, and what it says then."""

import threading
import time

import pytest

from service.execution import signals as steering
from service.execution.signals import (
    BeingRunError,
    Control,
    Stop,
    ask_driver,
    change,
    is_to_stop,
    request,
    take_request,
)
from service.planning.run_options import RunOptions
from service.storage.home import Home
from tests.rooms.service.execution.studies import arms, search
from tests.rooms.toy import conduct, driving
from tests.waiting import until
from trainables.spec import LocusError


class Reader(threading.Thread):
    """A driver that reads its requests."""

    def __init__(self, folder) -> None:
        super().__init__(daemon=True)
        self.folder, self.found, self.over = folder, [], False

    def run(self) -> None:
        while not self.over:
            if (asked := take_request(self.folder)) is not None:
                self.found.append(asked)
            time.sleep(0.01)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        self.join()


def of_more(edition, **counts):
    return edition.model_copy(update={"study": edition.study.counted(**counts)})


def test_it_asks_for_what_goes_beyond_and_waits_until_that_is_read(home: Home) -> None:
    edition = search()
    with driving(home, edition) as driver, Reader(driver.folder) as reader:
        error = change(of_more(edition, seeds=5, trials=9), home, RunOptions(max_concurrent=3))
        assert isinstance(error, BeingRunError)
        asks = "was asked for 5 seeds and 9 trials and 3 concurrent runs"
        assert str(error) == f"{edition.id} is being run by another driver, which {asks}"
    assert reader.found == [Control(seeds=5, trials=9, max_concurrent=3)]


def test_a_storage_that_the_driver_does_not_have_is_refused(home: Home) -> None:
    edition = arms()
    with driving(home, edition) as driver:
        said = str(change(of_more(edition, seeds=5), home, RunOptions(storage="s3://b/x")))
        assert said == (
            f"{edition.id} is being run by another driver without a storage; for --storage s3://b/x, stop it first "
            f"(locus stop {edition.id} --home {home.root})"
        )
        driver.folder.storage.write_text("s3://b/other")
        assert "another driver with the storage s3://b/other;" in str(
            change(edition, home, RunOptions(storage="s3://b/x"))
        )
        driver.folder.storage.write_text("s3://b/x")
        assert "does all of this" in str(change(edition, home, RunOptions(storage="s3://b/x")))


def test_the_same_command_again_asks_for_nothing(home: Home) -> None:
    with driving(home, arms()) as driver:
        error = change(of_more(arms(), seeds=1), home, RunOptions())
        assert str(error) == f"{arms().id} is being run by another driver, which does all of this; see locus status"
        assert not driver.folder.control.exists()
        own = change(arms(), home, RunOptions(home=str(home.root), download=True, run_hours=2.0))
        assert str(own).endswith("which does all of this, with its own --run-hours and --download; see locus status")
    assert not error.asked.given()


def test_a_driver_that_does_not_read_yet_is_said(home: Home, monkeypatch) -> None:
    monkeypatch.setattr(steering, "PATIENCE_S", 0.3)
    with driving(home, arms()):
        assert request(home, arms().id, Control(stop="now")) == (
            "will be asked to stop now as soon as it trains; if nothing is left to train (its probes or its report are "
            "made), type this again once it has ended"
        )


def test_a_stop_while_probes_are_computed_answers_no_other_request(home: Home, monkeypatch) -> None:
    """The driver of a study that trains no more hears a stop alone: seeds that were asked for are not done."""
    monkeypatch.setattr(steering, "poll", lambda *_: is_to_stop(home.study(arms().id), Stop()))
    with driving(home, arms()):
        ask_driver(home.study(arms().id), Control(seeds=8))
        assert request(home, arms().id, Control(stop="now")) == "was asked to stop now"
        ask_driver(home.study(arms().id), Control(stop="now"))
        assert request(home, arms().id, Control(seeds=8)).startswith("will be asked for 8 seeds as soon as it trains")


def test_a_study_that_nobody_runs_cannot_be_asked(home: Home) -> None:
    conduct(home, arms())
    with pytest.raises(LocusError, match=rf"{arms().id} is not being run here; see locus status"):
        request(home, arms().id, Control(stop="now"))


def test_a_driver_that_ends_before_it_reads_leaves_no_request(home: Home) -> None:
    with driving(home, arms()) as driver:
        folder = driver.folder
        failed: list[Exception] = []

        def ask() -> None:
            try:
                request(home, arms().id, Control(seeds=9))
            except LocusError as error:
                failed.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        until(folder.control.exists)
    asking.join()
    assert [str(error) for error in failed] == [f"{arms().id} ended before its driver read this; type it again"]
    assert not folder.control.exists()
