"""A part of a local study's Ray is killed: the study ends with a sentence, and the same command goes on."""

import os
import signal
from pathlib import Path

import pytest

from tests.faults.killed import ended, facts, measured_once
from tests.faults.test_ctrl_c import RUN, SLOW, plain, wait_for_training
from tests.journeys.processes import below

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

END_S = 120
"""Ray's own end takes 10 s, and many times as long on a crowded machine; without the look at its parts, minutes."""


def parts(command, name):
    """The pids of a part of the Ray that a command has started: none, or one."""
    names = {pid: Path(f"/proc/{pid}/comm") for pid in below(command.process.pid)}
    return [pid for pid, comm in names.items() if comm.exists() and comm.read_text().strip() == name]


@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_part_that_dies_ends_the_study_with_a_sentence(terminal, tally, name):
    running = terminal.begin(*RUN)
    wait_for_training(running, terminal)
    (pid,) = parts(running, name)
    os.kill(pid, signal.SIGKILL)
    done = running.end(END_S)
    said = plain(done.out) + done.err
    assert done.code == 1
    assert f"Ray's {'raylet' if name == 'raylet' else 'GCS'}, " in said
    assert "the same command goes on" in said.replace("\n", " ")
    assert "Traceback" not in said
    assert "state-dump" not in said
    running.wait_until_gone()
    told = facts(terminal.home, SLOW)
    assert not [fact for fact in told if fact.fact == "failed" and fact.counts]
    again = terminal.begin(*RUN)
    again.wait_for(" epoch ")
    again.interrupt()
    assert again.end(END_S).code == 130
    assert measured_once(facts(terminal.home, SLOW))
    tally()


def test_a_stop_is_heard_while_ray_starts_and_ends_what_never_began(terminal, tally):
    """Ray's start is held up, as on a busy machine: its GCS stands still."""
    running = terminal.begin(*RUN)
    running.wait_for("plan:")
    running.wait_until(lambda: parts(running, "gcs_server"))
    (pid,) = parts(running, "gcs_server")
    os.kill(pid, signal.SIGSTOP)
    running.interrupt()
    done = running.end(END_S)
    assert done.code == 130
    assert "Traceback" not in plain(done.out) + done.err
    running.wait_until_gone()
    told = facts(terminal.home, SLOW)
    assert not ended(told)
    assert not [fact for fact in told if fact.fact in ("failed", "measured")]
    tally()
