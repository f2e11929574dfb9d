"""Room: the signals that end a study, and work in a thread of its own, which can be left."""

import ctypes
import os
import signal
import threading
import time

import pytest

from service.execution import signals as room
from service.execution.signals import ENDING, Apart, Stop, StopSignals
from tests.waiting import LIMIT_S


def nothing() -> None:
    """Watches nothing."""


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
            Apart().do(work, nothing)


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


def test_work_that_was_left_begins_nothing_that_belongs_to_others():
    """As Ray's start, which hears no signal for half a minute."""
    one, begun, refused = Apart(), threading.Event(), threading.Event()
    go_on = threading.Event()

    def work():
        go_on.wait()
        try:
            one.share()
        except KeyboardInterrupt:
            refused.set()
            raise
        begun.set()

    def watch():
        raise TimeoutError("seen enough")

    with pytest.raises(TimeoutError, match="seen enough"):
        one.do(work, watch)
    assert one.leaving.is_set()
    go_on.set()
    assert refused.wait(60)
    assert not begun.is_set()


def leaves(shared: threading.Event):
    """A watch that leaves the work once it shares something."""

    def watch():
        if shared.is_set():
            raise TimeoutError

    return watch


def test_work_that_shares_is_waited_for_until_it_has_ended():
    one, shared, ended = Apart(), threading.Event(), threading.Event()

    def work():
        one.share()
        shared.set()
        one.leaving.wait()
        ended.set()
        one.check()

    with pytest.raises(TimeoutError):
        one.do(work, leaves(shared))
    assert ended.is_set()


def test_a_signal_that_is_ignored_stays_ignored_while_work_is_left():
    """As SIGHUP by `nohup`: a terminal that closes in this moment must not end the study."""
    one, shared, lines, noted = Apart(), threading.Event(), [], threading.Event()

    def note(line):
        lines.append(line)
        noted.set()

    def work():
        one.share()
        shared.set()
        one.leaving.wait()
        os.kill(os.getpid(), signal.SIGHUP)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals(Stop(), note).installed():
            with pytest.raises(TimeoutError):
                one.do(work, leaves(shared))
            os.kill(os.getpid(), signal.SIGTERM)
            assert noted.wait(LIMIT_S)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert lines == [ENDING.format("SIGTERM")]


def test_it_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(room, "ENDS_S", 0.01)
    one, shared, over = Apart(), threading.Event(), threading.Event()

    def work():
        one.share()
        shared.set()
        over.wait()

    with pytest.raises(TimeoutError):
        one.do(work, leaves(shared))
    assert not over.is_set()
    over.set()
