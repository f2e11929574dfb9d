"""`locus ui` as a process of its own: its server ends with it, is used twice, and is missed when it dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.storage.home import Home
from service.tracking.server import UiError, serve, server
from service.tracking.sync import answers
from tests.rooms.service.tracking.facts import Facts, runs, show

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def known(home: Home, small: Facts) -> Home:
    """A home with a study that MLflow shows."""
    show(home, small)
    folder = home.study(small.edition.id)
    folder.root.mkdir(parents=True)
    folder.study.write_text(json.dumps(small.edition.plain()))
    return home


@pytest.fixture
def ui(known: Home, port: int) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "service", "ui", "--home", str(known.root), "--port", str(port)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    yield process
    for group in (process.pid, *children(process)):
        if there(group):
            os.killpg(group, signal.SIGKILL)
    process.wait()


def children(process: subprocess.Popen) -> list[int]:
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in found.read_text().split()] if found.exists() else []


def there(group: int) -> bool:
    """Whether a process of a group lives."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False


def wait(until: Callable[[], bool], seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < limit, "it never came to that"
        time.sleep(0.1)


def test_it_is_used_by_a_second_command_and_ends_with_its_terminal(ui, known, port, tmp_path, database, small):
    lines = [ui.stdout.readline().strip() for _ in range(7)]
    address = f"http://127.0.0.1:{port}"
    assert lines[0] == f"MLflow: {address}/#/experiments?workflowType=machine_learning"
    assert lines[1] == "reach@base"
    assert all("workflowType=machine_learning" in line for line in lines[2:6])
    assert lines[6] == "Ctrl-C ends MLflow."
    (server,) = children(ui)

    said: list[str] = []
    serve(known, None, port, note=said.append)
    assert said[:-1] == [lines[0], lines[1], *(f"  {line}" for line in lines[2:6])]
    assert said[-1] == "MLflow ran already; it stays."
    assert answers(address)

    other = Home(tmp_path / "other")
    other.root.mkdir()
    shutil.copy(database, other.root / "mlflow.db")
    show(other, small)
    shutil.copytree(known.root / "studies", other.root / "studies")
    with pytest.raises(UiError, match=f"port {port} must be free, got an MLflow of other runs there"):
        serve(other, None, port, note=said.append)
    assert "reach@base" in runs(known)

    os.kill(ui.pid, signal.SIGHUP)
    assert ui.wait(30) == 0
    assert not there(server)
    assert not answers(address)


def test_it_ends_with_a_sentence_where_mlflow_dies(ui, known):
    assert any("Ctrl-C ends MLflow." in line for line in iter(ui.stdout.readline, ""))
    (server,) = children(ui)
    os.killpg(server, signal.SIGKILL)
    assert ui.wait(30) == 2
    assert f"MLflow ended by itself (exit code -9); see {known.root}/mlflow.log" in ui.stdout.read()


def test_it_ends_while_mlflow_starts(ui, known):
    wait(lambda: bool(children(ui)))
    (server,) = children(ui)
    os.kill(ui.pid, signal.SIGTERM)
    assert ui.wait(30) == 0
    assert not there(server)
    assert "MLflow ended." in ui.stdout.read()


def test_the_list_of_processes_does_not_show_the_store(tmp_path, port):
    """Its address may hold a password."""
    with server(Home(tmp_path), port, f"sqlite:///{tmp_path}/s3cret.db"):
        shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"--port {port}" in shown
    assert "s3cret" not in shown
    assert (tmp_path / "s3cret.db").exists()
