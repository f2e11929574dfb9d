"""`locus ui` as a process of its own: its server ends with it, is used twice, and is missed when it dies.

And how many requests a study costs at a server, counted by a proxy before a real one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from service.storage.editions import save_edition
from service.storage.home import Home
from service.tracking import set_up_client
from service.tracking.server import UiError, serve, server
from service.tracking.store import look_up
from service.tracking.sync import trouble
from tests.journeys.terminal import heed_signals
from tests.ports import held_port
from tests.rooms.service.tracking.facts import Facts, answering, finished, runs, show
from tests.waiting import LIMIT_S, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ROW = ("runs/create", "runs/log-batch", "runs/update")
"""The three calls that make a row. MLflow has no call for several rows, and none of these does another one's work."""
ONCE = 40
"""The most calls that a study makes besides: to look, and to describe the experiment."""


@pytest.fixture
def known(home: Home, small: Facts) -> Home:
    """A home with a study that MLflow shows."""
    show(home, small)
    save_edition(small.edition, home)
    return home


class Ui(subprocess.Popen):
    """`locus ui` on a port that is held for it."""

    def __init__(self, home: Home, port: int) -> None:
        self.port = port
        command = [sys.executable, "-m", "service", "ui", "--home", str(home.root), "--port", str(port)]
        super().__init__(
            command, stdout=-1, stderr=subprocess.STDOUT, text=True, start_new_session=True, preexec_fn=heed_signals
        )

    def until_it_waits(self) -> list[str]:
        """What it says until it waits for its end."""
        lines = [""]
        while lines[-1] != "Ctrl-C ends MLflow.":
            line = self.stdout.readline()
            assert line, lines
            lines.append(line.strip())
        return lines[1:]

    def servers(self) -> list[int]:
        """The servers of MLflow that it began."""
        found = []
        for pid in (pid for pid, fields in processes() if int(fields[1]) == self.pid):
            with suppress(FileNotFoundError, ProcessLookupError):
                found += [pid] if b"\0mlflow\0server\0" in Path(f"/proc/{pid}/cmdline").read_bytes() else []
        return found

    def clear(self) -> None:
        for group in (self.pid, *(pid for pid, fields in processes() if int(fields[1]) == self.pid)):
            if lives(group):
                os.killpg(group, signal.SIGKILL)
        self.wait()
        self.stdout.close()


@pytest.fixture
def ui(known: Home) -> Iterator[Ui]:
    """`locus ui`, which begins."""
    with held_port() as port:
        command = Ui(known, port)
        yield command
        command.clear()


def processes() -> Iterator[tuple[int, list[str]]]:
    """The processes that live: each one's number, and its state, parent and group."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            yield int(status.parent.name), fields[:3]


def lives(group: int) -> bool:
    """Whether a process of a group lives."""
    return any(int(fields[2]) == group for _, fields in processes())


def test_it_is_used_by_a_second_command_and_ends_with_its_terminal(ui, known, tmp_path, database, small):
    lines = ui.until_it_waits()
    port, address = ui.port, f"http://127.0.0.1:{ui.port}"
    assert lines[0] == f"MLflow: {address}/#/experiments?workflowType=machine_learning"
    assert lines[1] == "reach@base"
    assert all("workflowType=machine_learning" in line for line in lines[2:6])
    assert lines[6] == "Ctrl-C ends MLflow."
    (server,) = ui.servers()

    notes: list[str] = []
    serve(known, None, port, note=notes.append)
    assert notes[:-1] == [lines[0], lines[1], *(f"  {line}" for line in lines[2:6])]
    assert notes[-1] == "MLflow ran already; it stays."
    assert not trouble(address)

    other = Home(tmp_path / "other")
    other.root.mkdir()
    shutil.copy(database, other.root / "mlflow.db")
    show(other, small)
    shutil.copytree(known.root / "studies", other.root / "studies", dirs_exist_ok=True)
    with pytest.raises(UiError, match=f"port {port} must be free, got an MLflow of other runs there"):
        serve(other, None, port, note=notes.append)
    assert "reach@base" in runs(known)

    os.kill(ui.pid, signal.SIGHUP)
    assert ui.wait(LIMIT_S) == 0
    until(lambda: not lives(server))
    assert trouble(address)


def test_it_ends_with_a_sentence_where_mlflow_dies(ui, known):
    ui.until_it_waits()
    (server,) = ui.servers()
    os.killpg(server, signal.SIGKILL)
    assert ui.wait(LIMIT_S) == 2
    assert f"MLflow ended by itself (exit code -9); see {known.root}/mlflow.log" in ui.stdout.read()


def test_it_ends_while_mlflow_starts(ui):
    until(ui.servers)
    (server,) = ui.servers()
    os.kill(ui.pid, signal.SIGTERM)
    assert ui.wait(LIMIT_S) == 0
    until(lambda: not lives(server))
    assert "MLflow ended." in ui.stdout.read()


def test_the_list_of_processes_does_not_show_the_store(tmp_path):
    """Its address may hold a password."""
    with held_port() as port, server(Home(tmp_path), port, f"sqlite:///{tmp_path}/s3cret.db"):
        listed = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"--port {port}" in listed
    assert "s3cret" not in listed
    assert (tmp_path / "s3cret.db").exists()


def test_a_row_costs_three_requests(home: Home, tmp_path_factory) -> None:
    set_up_client()
    facts, mine, counts = finished(trials=4, seeds=3), Home(tmp_path_factory.mktemp("mine")), Counter[str]()
    with held_port() as port, server(home, port):

        def passed_on(request) -> tuple[int, bytes, str]:
            content = request.rfile.read(int(request.headers.get("Content-Length") or 0))
            headers = {name: text for name, text in request.headers.items() if name.lower() != "host"}
            address = f"http://127.0.0.1:{port}{request.path}"
            answer = requests.request(request.command, address, data=content, headers=headers, timeout=60)
            counts[request.path.partition("?")[0].rpartition("mlflow/")[2]] += 1
            return answer.status_code, answer.content, answer.headers.get("Content-Type", "")

        with answering(passed_on) as address:
            show(mine, facts, tracking=address)
            rows = len(look_up(mine, facts.edition, address).shown)
    assert rows == 1 + 4 + 12
    assert counts["runs/create"] == rows
    assert counts["runs/update"] == rows
    assert rows <= counts["runs/log-batch"] <= rows + 1, "the study's own row may grow"
    besides = {path: times for path, times in counts.items() if path not in ROW}
    assert sum(besides.values()) < ONCE, besides
