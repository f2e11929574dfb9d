"""A driver that was suspended while another host took its study over: one sentence, and nothing more is written."""

import os
import signal

import pytest

from service.storage import editions
from service.storage.facts import Counts
from service.storage.home import Home
from service.storage.journal import Journal, read
from service.storage.leases import Host, Session, at_work_elsewhere
from service.tracking.store import look_up
from tests.faults.killed import ended, facts
from tests.waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1200)]

ID = "waves@long"
RUN = ("run", "./study.py", "-v", "--budget", "long")
FAR = Host("far", "start of far")
STALE_S = 2.0


def taken_over(folder):
    """The journal of a driver on another host, whose file system has no locks between hosts."""
    until(lambda: not at_work_elsewhere(folder.drivers, FAR, STALE_S))
    return Journal(folder.journal, folder.root / "lock of far", Session(folder.drivers, FAR, stale_s=STALE_S))


@pytest.mark.parametrize("kill", [os.kill, os.killpg], ids=["the driver", "the machine"])
def test_who_wakes_ends_and_leaves_all_to_the_other(terminal, kill):
    running = terminal.begin(*RUN)
    running.wait_for("epoch 7/40")
    folder = Home(terminal.home).study(ID)
    kill(running.process.pid, signal.SIGSTOP)
    with taken_over(folder) as second:
        second.write(Counts(seeds=3))
        before = [fact for fact in read(folder.journal)[0] if fact.by == 1]
        answers = {path for path in Home(terminal.home).outcomes.glob("[!.]*/*") if path.is_file()}
        kill(running.process.pid, signal.SIGCONT)
        done = running.end()
        said = done.err.strip().splitlines()
        assert done.code == 2, done.out + done.err
        assert said[-1].startswith(
            f"locus: another driver, on far (process {os.getpid()}), has taken {ID} over, because"
        )
        assert "Traceback" not in done.out + done.err
        assert "report" not in done.out.split("epoch 7/40")[1]
        running.wait_until_gone()
        assert {path for path in Home(terminal.home).outcomes.glob("[!.]*/*") if path.is_file()} == answers
        assert not folder.report.exists()
        assert look_up(Home(terminal.home), editions.stored(Home(terminal.home), ID)).shown[
            "study", "", None
        ].status == ("RUNNING"), "the other driver goes on with it"
        second.write(Counts(seeds=2))
        told = read(folder.journal)[0]
        assert [fact for fact in told if fact.by == 1] == before
        assert [fact.fact for fact in told if fact.by == 2] == ["opened", "counts", "counts"]
        seen = terminal.type("status")
        assert "running on far" in seen.out
        refused = terminal.type(*RUN)
        assert refused.code == 2
        assert f"{ID} is being run by another driver, on far (process {os.getpid()}), which does all" in refused.err
    terminal.do(*RUN)
    assert set(ended(facts(terminal.home, ID)).values()) == {"completed"}
    terminal.do("verify", ID)
