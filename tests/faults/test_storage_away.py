"""The place of `--storage` stands still while a study trains, or is gone: nothing is lost, and no wait is endless."""

import signal
import time

import pytest

from service.storage.home import Home
from service.storage.remote import fetch
from tests.faults.killed import facts, numbers, of, recovery_s, require_whole, undisturbed
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


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("calm"), *RUN)


def require_both_whole(terminal, server, calm, folder):
    """The home has the numbers of the undisturbed study, and so has one that is fetched from the storage."""
    require_whole(terminal, ID, calm)
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
    assert not of(facts(terminal.home, ID), "failed")
    require_both_whole(terminal, server, calm, tmp_path)
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
    require_both_whole(terminal, server, calm, tmp_path)
    tally(0, recovery_s(facts(terminal.home, ID), begun))
