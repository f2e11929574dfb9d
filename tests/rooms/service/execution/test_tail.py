"""A log that is followed by Ray's own stream of it: a broken connection loses no line, and shows none twice."""

import asyncio
import threading
import time

import pytest

from service.execution import submission
from service.execution.jobs import Client
from service.execution.submission import Submission
from tests.rooms.service.execution.ray_jobs import JOB, RayJobs
from tests.waiting import until

LINES = [f"00:{number:02} epoch {number} of the wave, £ and 位" for number in range(60)]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setattr(submission, "AGAIN_S", 0.01)


@pytest.fixture
def served():
    servers = []

    def begin(*breaks, **how):
        servers.append(RayJobs(breaks, **how))
        return servers[-1]

    yield begin
    for one in servers:
        one.end()


def watched(server):
    return Submission(Client(server.address), server.address, JOB, "reach@base", None)


def grow(server, connections=1, fetched=1):
    """Writes the log in pieces that end within lines; ends the job after so many connections and wholes."""

    def write():
        for begin in range(0, len(TEXT), 11):
            server.log += TEXT[begin : begin + 11]
            time.sleep(0.002)
        until(lambda: server.connections >= connections and server.fetched >= fetched)
        server.status = "SUCCEEDED"

    threading.Thread(target=write, daemon=True).start()


@pytest.mark.parametrize("breaks", [(), (1,), (40, 41, 700), (5, 5, 5, 5)], ids=str)
def test_lines_come_whole_and_once_however_often_the_stream_breaks(served, breaks):
    server = served(*breaks)
    grow(server, connections=len(breaks) + 1)
    assert list(watched(server).logs(follow=True)) == LINES
    assert server.connections == len(breaks) + 1


def test_the_whole_log_is_not_fetched_again_and_again(served):
    server = served()
    grow(server)
    assert list(watched(server).logs(follow=True)) == LINES
    assert server.fetched == 2


def test_a_stream_that_no_proxy_lets_pass_is_asked_for_as_a_whole(served):
    server = served(refuses=True)
    grow(server, fetched=3)
    assert list(watched(server).logs(follow=True)) == LINES


def test_a_stream_that_stands_still_is_found_out(served, monkeypatch):
    """Its other end is gone, and nobody said so: the log grows, and no letter of it comes."""
    monkeypatch.setattr(submission, "QUIET_S", 0.1)
    server = served(300, stands_still=True)
    grow(server, connections=2)
    assert list(watched(server).logs(follow=True)) == LINES


def test_what_the_stream_lacks_at_its_end_comes_from_the_log(served):
    server = served(200)
    server.log, server.status = TEXT, "SUCCEEDED"
    assert list(watched(server).logs(follow=True)) == LINES


def test_it_is_followed_where_an_event_loop_runs_already(served):
    """As in a notebook."""
    server = served()
    grow(server)

    async def cell():
        return list(watched(server).logs(follow=True))

    assert asyncio.run(cell()) == LINES


def test_whoever_stops_to_listen_leaves_no_thread(served):
    server = served()
    server.log = TEXT
    lines = watched(server).logs(follow=True)
    assert [next(lines) for _ in LINES] == LINES
    server.log += "more\n"
    assert next(lines) == "more"
    lines.close()
    until(lambda: all(thread.name != "tail" for thread in threading.enumerate()))


def test_a_job_that_ends_without_a_further_letter_ends_a_stream_that_stands_still(served, monkeypatch):
    """As if the connection is half open when the job is killed: it was asked for ever."""
    monkeypatch.setattr(submission, "QUIET_S", 0.05)
    server = served(11, stands_still=True)
    server.log = "first line\n"
    lines = []
    follows = threading.Thread(target=lambda: lines.extend(watched(server).logs(follow=True)), daemon=True)
    follows.start()
    until(lambda: server.fetched >= 2)
    server.status = "FAILED"
    follows.join(60)
    ended = not follows.is_alive()
    server.log += "\n"  # ends it in any case
    assert (ended, lines) == (True, ["first line"])
