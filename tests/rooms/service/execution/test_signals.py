"""How a study is asked to stop or to change: signals, work in a thread that can be left, and requests for a driver."""

import ctypes
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from service.execution import signals as room
from service.execution.signals import (
    ENDING,
    Apart,
    BeingRunError,
    Control,
    Stop,
    StopSignals,
    ask_driver,
    change,
    is_to_stop,
    request,
    take_request,
)
from service.planning.run_options import RunOptions
from service.storage.home import Home, StudyFolder
from tests.rooms.service.execution.studies import arms, search
from tests.rooms.toy import conduct, driving
from tests.waiting import LIMIT_S, until
from trainables.spec import LocusError


def test_the_hours_are_those_that_pass_though_the_clock_is_set(monkeypatch):
    now = time.monotonic()
    for hours, shift, over in ((1.0, -1e6, False), (1.0, 1e6, False), (None, 1e6, False), (1.0, -1e6, True)):
        monkeypatch.undo()
        monkeypatch.setattr(time, "monotonic", lambda: now)
        stop = Stop.after(hours)
        wall = time.time() + shift
        monkeypatch.setattr(time, "time", lambda wall=wall: wall)
        monkeypatch.setattr(time, "monotonic", lambda over=over: now + 3601 * over)
        assert bool(stop) == over


def test_what_the_work_raises_comes_to_who_waits():
    for error in (ValueError("odd"), KeyboardInterrupt()):

        def work(error=error):
            raise error

        with pytest.raises(type(error)):
            Apart().do(work)


def test_a_signal_that_the_work_takes_over_is_heard_again():
    """As Ray takes SIGTERM, behind Python's back: its own handler ends the process, and no run is ended in order."""
    taken, heard = threading.Event(), threading.Event()

    def work():
        ctypes.CDLL(None).signal(signal.SIGTERM, 1)  # SIG_IGN
        taken.set()
        assert heard.wait(LIMIT_S)

    def watch():
        if taken.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: heard.set())
    try:
        Apart().do(work, watch)
    finally:
        signal.signal(signal.SIGTERM, before)


class Left:
    """Work that is left as soon as it shares something; `inside` is what it does from then on."""

    def __init__(self, inside) -> None:
        self.apart, self.shared, self.inside = Apart(), threading.Event(), inside

    def work(self) -> None:
        self.apart.share()
        self.shared.set()
        self.inside(self.apart)

    def watch(self) -> None:
        if self.shared.is_set():
            raise TimeoutError

    def leave(self) -> None:
        with pytest.raises(TimeoutError):
            self.apart.do(self.work, self.watch)


def test_work_that_was_left_begins_nothing_that_belongs_to_others():
    """As Ray's start, which hears no signal for half a minute."""
    work = Left(lambda apart: None)
    refused, go_on = threading.Event(), threading.Event()

    def waits() -> None:
        go_on.wait()
        try:
            work.work()
        except KeyboardInterrupt:
            refused.set()
            raise

    with pytest.raises(ZeroDivisionError):
        work.apart.do(waits, lambda: 1 / 0)
    go_on.set()
    assert refused.wait(60)
    assert not work.shared.is_set()


def test_work_that_shares_is_waited_for_until_it_has_ended():
    ended = threading.Event()
    Left(lambda apart: (apart.leaving.wait(), ended.set(), apart.check())).leave()
    assert ended.is_set()


def test_it_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(room, "ENDS_S", 0.01)
    over = threading.Event()
    Left(lambda apart: over.wait()).leave()
    assert not over.is_set()
    over.set()


def test_a_signal_that_is_ignored_stays_ignored_while_work_is_left():
    """As SIGHUP by `nohup`: a terminal that closes in this moment must not end the study."""
    lines, noted = [], threading.Event()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals(Stop(), lambda line: (lines.append(line), noted.set())).installed():
            Left(lambda apart: (apart.leaving.wait(), os.kill(os.getpid(), signal.SIGHUP))).leave()
            os.kill(os.getpid(), signal.SIGTERM)
            assert noted.wait(LIMIT_S)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert lines == [ENDING.format("SIGTERM")]


@pytest.mark.parametrize(
    ("requests", "taken"),
    [
        ([], None),
        ([{"seeds": 5}], {"seeds": 5}),
        ([{"seeds": 5, "max_concurrent": 3}, {"seeds": 8, "stop": "now"}],
         {"seeds": 8, "max_concurrent": 3, "stop": "now"}),
        ([{"seeds": 8, "trials": 4}, {"seeds": 5, "trials": 9}], {"seeds": 8, "trials": 9}),  # the higher count stays
    ],
)  # fmt: skip
def test_requests_that_were_not_read_become_one_which_is_taken_once(tmp_path: Path, requests, taken) -> None:
    folder = StudyFolder(tmp_path)
    for changes in requests:
        ask_driver(folder, Control(**changes))
    assert take_request(folder) == (taken and Control(**taken))
    assert take_request(folder) is None
    assert list(folder.root.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", '{"seeds": "many"}', '{"speed": 3}', "\x00"])
def test_one_that_cannot_be_read_asks_for_nothing_and_is_removed(tmp_path: Path, content) -> None:
    folder = StudyFolder(tmp_path)
    folder.control.write_text(content)
    assert take_request(folder) is None
    assert not folder.control.exists()
    folder.control.write_text(content)
    ask_driver(folder, Control(trials=9))
    assert take_request(folder) == Control(trials=9)


def test_a_stop_is_heard_while_probes_are_computed_and_other_requests_stay(tmp_path: Path) -> None:
    """Who asked for seeds is not told that they were heard."""
    folder, stop = StudyFolder(tmp_path), Stop()
    for changes, stops, left in [
        (None, False, None),
        (Control(seeds=8), False, Control(seeds=8)),
        (Control(stop="after the epoch"), True, Control(seeds=8)),
        (Control(stop="now"), True, None),
    ]:
        if changes is not None:
            ask_driver(folder, changes)
        assert (is_to_stop(folder, stop), stop.asked) == (stops, stops)
        if stops:
            assert take_request(folder) == left
            stop = Stop()
    assert is_to_stop(folder, Stop(deadline=0.0))


def of_more(edition, **counts):
    return edition.model_copy(update={"study": edition.study.counted(**counts)})


IS_RUN = "is being run by another driver"


def test_a_command_asks_for_what_goes_beyond_and_waits_until_that_is_read(home: Home) -> None:
    edition, taken = search(), []
    with driving(home, edition) as driver:

        def read() -> None:
            until(driver.folder.control.exists)
            taken.append(take_request(driver.folder))

        reader = threading.Thread(target=read)
        reader.start()
        error = change(of_more(edition, seeds=5, trials=9), home, RunOptions(max_concurrent=3))
        reader.join()
    assert isinstance(error, BeingRunError)
    assert str(error) == f"{edition.id} {IS_RUN}, which was asked for 5 seeds and 9 trials and 3 concurrent runs"
    assert taken == [error.asked] == [Control(seeds=5, trials=9, max_concurrent=3)]


def test_what_the_driver_does_already_or_cannot_do_is_said(home: Home) -> None:
    edition = arms()
    storage, all_of_this = RunOptions(storage="s3://b/x"), f"{edition.id} {IS_RUN}, which does all of this"
    with driving(home, edition) as driver:
        error = change(of_more(edition, seeds=1), home, RunOptions())
        assert (str(error), error.asked.given()) == (f"{all_of_this}; see locus status", {})
        options = RunOptions(home=str(home.root), download=True, run_hours=2.0)
        sentence = f"{all_of_this}, with its own --run-hours and --download; see locus status"
        assert str(change(edition, home, options)) == sentence
        assert str(change(of_more(edition, seeds=5), home, storage)) == (
            f"{edition.id} {IS_RUN} without a storage; for --storage s3://b/x, stop it first "
            f"(locus stop {edition.id} --home {home.root})"
        )
        driver.folder.storage.write_text("s3://b/other")
        assert f"{IS_RUN} with the storage s3://b/other;" in str(change(edition, home, storage))
        driver.folder.storage.write_text("s3://b/x")
        assert str(change(edition, home, storage)).startswith(all_of_this)
        assert not driver.folder.control.exists()


def test_a_driver_that_does_not_read_yet_is_said(home: Home, monkeypatch) -> None:
    """The driver of a study that trains no more hears a stop alone: seeds that were asked for are not done."""
    monkeypatch.setattr(room, "PATIENCE_S", 0.3)
    unread = "as soon as it trains; if nothing is left to train (its probes or its report are made), type this again"
    with driving(home, arms()):
        sentence = request(home, arms().id, Control(stop="now"))
        assert sentence == f"will be asked to stop now {unread} once it has ended"
        folder = home.study(arms().id)
        monkeypatch.setattr(room, "poll", lambda *_: is_to_stop(folder, Stop()))
        ask_driver(folder, Control(seeds=8))
        assert request(home, arms().id, Control(stop="now")) == "was asked to stop now"
        ask_driver(folder, Control(stop="now"))
        assert request(home, arms().id, Control(seeds=8)).startswith(f"will be asked for 8 seeds {unread}")


def test_a_study_that_nobody_runs_cannot_be_asked(home: Home) -> None:
    conduct(home, arms())
    with pytest.raises(LocusError, match=rf"{arms().id} is not being run here; see locus status"):
        request(home, arms().id, Control(stop="now"))


def test_a_driver_that_ends_before_it_reads_leaves_no_request(home: Home) -> None:
    errors: list[str] = []

    def ask() -> None:
        try:
            request(home, arms().id, Control(seeds=9))
        except LocusError as error:
            errors.append(str(error))

    with driving(home, arms()) as driver:
        folder = driver.folder
        asking = threading.Thread(target=ask)
        asking.start()
        until(folder.control.exists)
    asking.join()
    assert errors == [f"{arms().id} ended before its driver read this; type it again"]
    assert not folder.control.exists()
