"""Ctrl-C once drains, twice ends within seconds, at any moment: exit 130, nothing left running, nothing lost."""

import re
import signal
import time

import pytest

from service.storage import editions
from service.storage.home import Home
from service.tracking.store import look_up
from tests.faults.killed import ended, facts, numbers

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

ID = "encodings@long"
RUN = ("run", "./study.py", "--budget", "long", "--set", "optimizer.epochs=300", "--as", "slow")
SLOW = f"{ID}~slow"
SECONDS = 30
"""Ray's start is not torn: 3 s on a quiet machine, 15 s on a crowded one."""
GONE_S = 30
"""Ray's own agents look every few seconds whether they are still needed."""


def rows(terminal, id):
    home = Home(terminal.home)
    store = look_up(home, editions.stored(home, id))
    return store.shown if store else {}


def plain(text):
    """What a terminal shows, without its colors and movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def left_after(command, seconds):
    until = time.monotonic() + seconds
    while command.group() and time.monotonic() < until:
        time.sleep(0.5)
    return command.group()


@pytest.mark.parametrize("on_pty", [False, True], ids=["piped", "pty"])
def test_once_ends_each_run_at_its_next_report(terminal, on_pty):
    running = terminal.begin(*RUN, on_pty=on_pty)
    wait_for_training(running, terminal)
    running.interrupt()
    done = running.end(60)
    said = plain(done.out)
    assert "stopping after this epoch, press again to stop now" in said
    require_drained(terminal, running, done)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_processes_drains_a_study_however_often_it_comes(terminal, number):
    running = terminal.begin(*RUN)
    wait_for_training(running, terminal)
    for _ in range(3):
        running.process.send_signal(number)
        time.sleep(0.05)
    done = running.end(60)
    assert f"{signal.Signals(number).name} received: stopping after this epoch" in done.out
    require_drained(terminal, running, done)


def require_drained(terminal, running, done):
    """All that runs in flight had computed is kept, nothing is left, and the study can go on."""
    said = plain(done.out)
    assert done.code == 130
    assert "continue   locus run ./study.py --budget long --set optimizer.epochs=300 --as slow" in said, "in one line"
    assert "Traceback" not in said + done.err
    told = facts(terminal.home, SLOW)
    assert not [fact for fact in told if fact.fact == "failed"]
    in_flight = {fact.run for fact in told if fact.fact == "started"} - ended(told).keys()
    assert in_flight
    states = {place: row.status for place, row in rows(terminal, SLOW).items()}
    assert states["study", "", None] == "KILLED"
    assert set(states.values()) == {"KILLED"}
    for run in in_flight:
        checkpoints = list(Home(terminal.home).study(SLOW).root.glob(f"work/{run}/*/1/checkpoint.pt"))
        assert len(checkpoints) == 1
    assert left_after(running, GONE_S) == []
    assert terminal.type("verify", "encodings").code == 0


def wait_for_training(running, terminal):
    """Until the journal has three epochs."""
    until = time.monotonic() + 90
    while time.monotonic() < until and running.process.poll() is None:
        journal = Home(terminal.home).study(SLOW).journal
        if journal.exists() and journal.read_text().count('"measured"') >= 3:
            return
        time.sleep(0.05)
    raise AssertionError(running.out)


@pytest.mark.gate
def test_what_was_interrupted_goes_on_bit_for_bit(terminal, terminals):
    command = ("run", "./study.py", "-v", "--budget", "long")
    running = terminal.begin(*command)
    running.wait_for("epoch 7/40")
    running.interrupt()
    assert running.end(60).code == 130
    measured = numbers(facts(terminal.home, ID))
    assert any(0 < len(curve) < 40 for curve in measured.values())
    assert terminal.type(*command).code == 0
    calm = terminals("calm")
    assert calm.type(*command).code == 0
    assert numbers(facts(terminal.home, ID)) == numbers(facts(calm.home, ID))


def after(text, seconds):
    def wait(running, terminal):
        running.wait_for(text)
        time.sleep(seconds)

    return wait


MOMENTS = {
    "while it reads": lambda running, terminal: time.sleep(0.6),
    "while Ray is imported": after("plan:", 0.1),
    "while Ray starts": after("plan:", 3),
    "while workers start": after("plan:", 7),
    "while it trains": lambda running, terminal: wait_for_training(running, terminal),
}


@pytest.mark.parametrize("on_pty", [False, True], ids=["piped", "pty"])
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_twice_ends_within_seconds(terminal, moment, on_pty):
    if on_pty and moment not in (MOMENTS["while Ray starts"], MOMENTS["while it trains"]):
        moment = after("seeds", 1)
    running = terminal.begin(*RUN, on_pty=on_pty)
    moment(running, terminal)
    begun = time.monotonic()
    running.interrupt()
    time.sleep(0.4)
    running.interrupt()
    done = running.end(60)
    seconds = time.monotonic() - begun
    print(f"{seconds:.1f} s")
    assert done.code == 130, plain(done.out) + done.err
    assert seconds < SECONDS
    assert "Traceback" not in plain(done.out) + done.err
    assert "continue   locus run ./study.py" in plain(done.out)
    if Home(terminal.home).study(SLOW).study.exists():
        assert not [fact for fact in facts(terminal.home, SLOW) if fact.fact == "failed"]
        assert "RUNNING" not in {row.status for row in rows(terminal, SLOW).values()}
    assert left_after(running, GONE_S) == []


def test_twice_while_it_closes_breaks_nothing(terminal):
    command = ("run", "./study.py", "--seeds", "1")
    running = terminal.begin(*command)
    running.wait_for("#2 seed 0 completed")
    time.sleep(0.2)
    running.interrupt()
    time.sleep(0.3)
    running.interrupt()
    done = running.end(60)
    assert done.code in (0, 130)  # nothing was left to do; Ray hears nothing while it shuts down
    assert "Traceback" not in done.out + done.err
    assert "RUNNING" not in {row.status for row in rows(terminal, "encodings@base").values()}
    assert left_after(running, GONE_S) == []
    assert terminal.type("verify", "encodings").code == 0
