"""`locus ui` as a process of its own: its server ends with it, is used twice, and is missed when it dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from service.storage.home import Home
from service.tracking.server import UiError, serve, server
from service.tracking.sync import answers
from tests.rooms.service.tracking.facts import Facts, runs, show
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def known(home: Home, small: Facts) -> Home:
    """A home with a study that MLflow shows."""
    show(home, small)
    folder = home.study(small.edition.id)
    folder.root.mkdir(parents=True)
    folder.study.write_text(json.dumps(small.edition.plain()))
    return home


def free_port() -> int:
    """A port that nobody uses now; whoever begins a server there tries again where somebody took it meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Ui(subprocess.Popen):
    """`locus ui` on a port that is free as it begins."""

    def __init__(self, home: Home) -> None:
        self.port = free_port()
        super().__init__(
            [sys.executable, "-m", "service", "ui", "--home", str(home.root), "--port", str(self.port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def clear(self) -> None:
        for group in (self.pid, *children(self.pid)):
            if there(group):
                os.killpg(group, signal.SIGKILL)
        self.wait()
        self.stdout.close()


@pytest.fixture
def begun(known: Home) -> Iterator[Callable[[], Ui]]:
    """Begins `locus ui`."""
    found: list[Ui] = []

    def begun() -> Ui:
        found.append(Ui(known))
        return found[-1]

    yield begun
    for one in found:
        one.clear()


@pytest.fixture
def begin(begun) -> Callable[[], tuple[Ui, str]]:
    """Begins `locus ui` and gives its first line, too; once more where another process took the port meanwhile."""

    def begin(tries: int = 5) -> tuple[Ui, str]:
        ui = begun()
        first = ui.stdout.readline()
        taken = "did not start" in first or "must be free" in first
        return begin(tries - 1) if taken and tries > 1 else (ui, first)

    return begin


def processes() -> Iterator[tuple[int, list[str]]]:
    """The processes that live: each one's number, and its state, parent and group."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            yield int(status.parent.name), fields[:3]


def children(parent: int) -> list[int]:
    return [pid for pid, fields in processes() if int(fields[1]) == parent]


def servers(ui: Ui) -> list[int]:
    """The servers of MLflow that a command began."""
    found = []
    for pid in children(ui.pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += [pid] if b"\0mlflow\0server\0" in Path(f"/proc/{pid}/cmdline").read_bytes() else []
    return found


def there(group: int) -> bool:
    """Whether a process of a group lives."""
    return any(int(fields[2]) == group for _, fields in processes())


def test_it_is_used_by_a_second_command_and_ends_with_its_terminal(begin, known, tmp_path, database, small):
    ui, first = begin()
    lines = [first.strip(), *(ui.stdout.readline().strip() for _ in range(6))]
    port, address = ui.port, f"http://127.0.0.1:{ui.port}"
    assert lines[0] == f"MLflow: {address}/#/experiments?workflowType=machine_learning"
    assert lines[1] == "reach@base"
    assert all("workflowType=machine_learning" in line for line in lines[2:6])
    assert lines[6] == "Ctrl-C ends MLflow."
    (server,) = servers(ui)

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
    assert ui.wait(60) == 0
    until(lambda: not there(server))
    assert not answers(address)


def test_it_ends_with_a_sentence_where_mlflow_dies(begin, known):
    ui, _ = begin()
    assert any("Ctrl-C ends MLflow." in line for line in iter(ui.stdout.readline, ""))
    (server,) = servers(ui)
    os.killpg(server, signal.SIGKILL)
    assert ui.wait(60) == 2
    assert f"MLflow ended by itself (exit code -9); see {known.root}/mlflow.log" in ui.stdout.read()


def test_it_ends_while_mlflow_starts(begun):
    ui = begun()
    until(lambda: servers(ui))
    (server,) = servers(ui)
    os.kill(ui.pid, signal.SIGTERM)
    assert ui.wait(60) == 0
    until(lambda: not there(server))
    assert "MLflow ended." in ui.stdout.read()


def test_the_list_of_processes_does_not_show_the_store(tmp_path):
    """Its address may hold a password."""
    with ExitStack() as stack:
        for last in (False, False, True):
            port = free_port()
            try:
                stack.enter_context(server(Home(tmp_path), port, f"sqlite:///{tmp_path}/s3cret.db"))
                break
            except UiError:  # another process took the port meanwhile
                if last:
                    raise
        shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"--port {port}" in shown
    assert "s3cret" not in shown
    assert (tmp_path / "s3cret.db").exists()
