"""Ctrl-C once drains, twice ends within seconds, at any moment: exit 130, nothing left running, nothing lost."""

import re
import signal
from contextlib import suppress

import pytest

from service.execution.signals import STOPPING
from service.storage import editions
from service.storage.home import Home
from service.tracking.store import look_up
from tests.faults.killed import ended, facts, numbers, of
from tests.journeys.processes import below
from tests.waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1200)]

ID = "waves@long"
RUN = ("run", "./study.py", "--budget", "long", "--set", "optimizer.epochs=300", "--as", "slow")
SLOW = f"{ID}~slow"
READ = "from pathlib import Path\nPath(__file__).with_name('read').touch()\n"
"""What a study file begins with, to tell that it is being read."""


def rows(terminal, id):
    home = Home(terminal.home)
    store = look_up(home, editions.stored(home, id))
    return store.shown if store else {}


def plain(text):
    """What a terminal shows, without its colors and movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize("on_pty", [False, True], ids=["piped", "pty"])
def test_once_ends_each_run_at_its_next_report(terminal, on_pty):
    running = terminal.begin(*RUN, on_pty=on_pty)
    wait_for_training(running, terminal)
    running.interrupt()
    done = running.end()
    said = plain(done.out)
    assert "stopping after this epoch, press again to stop now" in said
    require_drained(terminal, running, done)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_that_ends_processes_drains_a_study_however_often_it_comes(terminal, number):
    running = terminal.begin(*RUN)
    wait_for_training(running, terminal)
    running.process.send_signal(number)
    running.wait_for(f"{signal.Signals(number).name} received: stopping after this epoch")
    running.process.send_signal(number)
    done = running.end()
    require_drained(terminal, running, done)


def test_once_in_python_ends_with_a_line_that_says_how_to_go_on(terminal):
    """Not with a traceback of locus's own lines."""
    own = "budget='long', set={'optimizer.epochs': 300}, version='slow'"
    running = terminal.begin_python(f"import service; service.run('./study.py', {own})")
    wait_for_training(running, terminal)
    running.interrupt()
    done = running.end()
    assert done.code == -signal.SIGINT, "as Python itself"
    assert done.err == f"{SLOW}: stopped; what is finished is kept, and the same call continues\n"
    running.wait_until_gone()


def require_drained(terminal, running, done):
    """All that runs in flight had computed is kept, nothing is left, and the study can go on."""
    said = plain(done.out)
    assert done.code == 130
    assert "continue   locus run ./study.py --budget long --set optimizer.epochs=300 --as slow" in said, "in one line"
    assert "Traceback" not in said + done.err
    told = facts(terminal.home, SLOW)
    assert not of(told, "failed")
    in_flight = {fact.run for fact in of(told, "started")} - ended(told).keys()
    assert in_flight
    states = {place: row.status for place, row in rows(terminal, SLOW).items()}
    assert states["study", "", None] == "SCHEDULED"
    assert set(states.values()) == {"SCHEDULED"}
    for run in in_flight:
        checkpoints = list(Home(terminal.home).study(SLOW).root.glob(f"work/{run}/*/1/checkpoint.pt"))
        assert len(checkpoints) == 1
    running.wait_until_gone()
    terminal.do("verify", "waves")


def journal_of(terminal):
    return Home(terminal.home).study(SLOW).journal


def wait_for_training(running, terminal):
    """Until the journal has three epochs."""
    journal = journal_of(terminal)
    running.wait_until(lambda: journal.exists() and journal.read_text().count('"measured"') >= 3)


@pytest.mark.gate
def test_what_was_interrupted_goes_on_bit_for_bit(terminal, terminals):
    command = ("run", "./study.py", "-v", "--budget", "long")
    running = terminal.begin(*command)
    running.wait_for("epoch 7/40")
    running.interrupt()
    assert running.end().code == 130
    measured = numbers(facts(terminal.home, ID))
    assert any(0 < len(curve) < 40 for curve in measured.values())
    terminal.do(*command)
    calm = terminals("calm")
    calm.do(*command)
    assert numbers(facts(terminal.home, ID)) == numbers(facts(calm.home, ID))


def process(title):
    """A moment: the command has a process, by a part of its title."""
    return lambda running, terminal: running.wait_until(
        lambda: any(title in one for one in below(running.process.pid).values()), f"it had no {title}"
    )


MOMENTS = {
    "while it reads": lambda running, terminal: running.wait_until((terminal.folder / "read").exists),
    "while Ray is imported": lambda running, terminal: running.wait_until(journal_of(terminal).exists),
    "while Ray starts": process("gcs_server"),
    "while workers start": process("ray::IDLE"),
    "while it trains": wait_for_training,
}


def interrupt_twice(running):
    """Presses Ctrl-C again once the first one was heard, or has ended the command by itself."""
    running.interrupt()
    until(lambda: STOPPING in plain(running.out) or running.process.poll() is not None, lambda: running.said)
    with suppress(ProcessLookupError):
        running.interrupt()


@pytest.mark.parametrize("on_pty", [False, True], ids=["piped", "pty"])
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_twice_ends_it_at_once(terminal, moment, on_pty):
    study = terminal.folder / "study.py"
    study.write_text(READ + study.read_text())
    running = terminal.begin(*RUN, on_pty=on_pty)
    moment(running, terminal)
    interrupt_twice(running)
    done = running.end()
    assert done.code == 130, plain(done.out) + done.err
    assert "Traceback" not in plain(done.out) + done.err
    assert "continue   locus run ./study.py" in plain(done.out)
    if Home(terminal.home).study(SLOW).study.exists():
        told = facts(terminal.home, SLOW)
        assert not of(told, "failed")
        assert not ended(told), "a run would have gone on for hundreds of epochs"
        assert "RUNNING" not in {row.status for row in rows(terminal, SLOW).values()}
    running.wait_until_gone()


def test_twice_while_it_closes_breaks_nothing(terminal):
    command = ("run", "./study.py", "--seeds", "1")
    running = terminal.begin(*command)
    running.wait_for("#2 seed 0 completed")
    interrupt_twice(running)
    done = running.end()
    assert done.code in (0, 130)  # nothing was left to do; Ray hears nothing while it shuts down
    assert "Traceback" not in done.out + done.err
    assert "RUNNING" not in {row.status for row in rows(terminal, "waves@base").values()}
    running.wait_until_gone()
    terminal.do("verify", "waves")
