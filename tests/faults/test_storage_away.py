"""The place of `--storage` stands still while a study trains, or is gone: nothing is lost, and no wait is endless."""

import signal
import time

import pytest

from service.storage.home import Home
from service.storage.remote import fetch
from tests.faults.killed import facts, measured_once, numbers, recovery_s
from tests.s3_server import S3Server

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1200)]

ID = "waves@long"
RUN = ("run", "./study.py", "-v", "--budget", "long")


@pytest.fixture
def server(monkeypatch):
    found = S3Server()
    found.reach(monkeypatch)
    yield found
    found.end()


@pytest.fixture
def calm(terminals):
    """The numbers of the study that nothing disturbed."""
    terminal = terminals("calm")
    terminal.do(*RUN)
    return numbers(facts(terminal.home, ID))


def require_whole(terminal, server, calm, folder):
    """The home has the numbers of the undisturbed study, and so has one that is fetched from the storage."""
    told = facts(terminal.home, ID)
    assert numbers(told) == calm
    assert measured_once(told)
    terminal.do("verify", ID)
    other = Home(folder / "fetched")
    fetch(server.uri, other, ID)
    assert numbers(facts(other.root, ID)) == calm
    assert len(list(other.outcomes.rglob("*.pt"))) == 3


def test_it_stands_still_for_30_seconds(server, terminals, calm, tmp_path, tally):
    terminal = terminals("hurt", **server.env)
    running = terminal.begin(*RUN, "--storage", server.uri)
    running.wait_for("epoch 5/40")
    server.signal(signal.SIGSTOP)
    time.sleep(30)  # the fault itself: nothing is expected to happen meanwhile
    server.signal(signal.SIGCONT)
    begun = time.time()
    done = running.end()
    assert done.code == 0, done.out + done.err
    assert not [fact for fact in facts(terminal.home, ID) if fact.fact == "failed"]
    require_whole(terminal, server, calm, tmp_path)
    tally(0, recovery_s(facts(terminal.home, ID), begun))


def test_it_is_gone_and_comes_back_empty(server, terminals, calm, tmp_path, tally):
    terminal = terminals("hurt", **server.env)
    running = terminal.begin(*RUN, "--storage", server.uri)
    running.wait_for("epoch 5/40")
    server.end()
    done = running.end()
    assert done.code != 0
    assert "Traceback" not in done.out + done.err
    assert f"{server.uri}" in done.out + done.err
    server.start()
    begun = time.time()
    terminal.do(*RUN, "--storage", server.uri)
    require_whole(terminal, server, calm, tmp_path)
    tally(0, recovery_s(facts(terminal.home, ID), begun))
