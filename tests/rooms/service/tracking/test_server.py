"""`locus ui` as a process of its own: its server ends with it, is used twice, and is missed when it dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from service.storage.editions import save_edition
from service.storage.home import Home
from service.tracking.server import UiError, serve, server
from service.tracking.sync import answers
from tests.journeys.terminal import heed_signals
from tests.ports import held_port
from tests.rooms.service.tracking.facts import Facts, runs, show
from tests.waiting import LIMIT_S, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


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
        super().__init__(
            [sys.executable, "-m", "service", "ui", "--home", str(home.root), "--port", str(self.port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=heed_signals,
        )

    def clear(self) -> None:
        for group in (self.pid, *children(self.pid)):
            if there(group):
                os.killpg(group, signal.SIGKILL)
        self.wait()
        self.stdout.close()


@pytest.fixture
def ui(known: Home) -> Iterator[Ui]:
    """`locus ui`, which begins."""
    with held_port() as port:
        found = Ui(known, port)
        yield found
        found.clear()


def until_it_waits(ui: Ui) -> list[str]:
    """What it says until it waits for its end."""
    lines = [""]
    while lines[-1] != "Ctrl-C ends MLflow.":
        line = ui.stdout.readline()
        assert line, lines
        lines.append(line.strip())
    return lines[1:]


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


def test_it_is_used_by_a_second_command_and_ends_with_its_terminal(ui, known, tmp_path, database, small):
    lines = until_it_waits(ui)
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
    shutil.copytree(known.root / "studies", other.root / "studies", dirs_exist_ok=True)
    with pytest.raises(UiError, match=f"port {port} must be free, got an MLflow of other runs there"):
        serve(other, None, port, note=said.append)
    assert "reach@base" in runs(known)

    os.kill(ui.pid, signal.SIGHUP)
    assert ui.wait(LIMIT_S) == 0
    until(lambda: not there(server))
    assert not answers(address)


def test_it_ends_with_a_sentence_where_mlflow_dies(ui, known):
    until_it_waits(ui)
    (server,) = servers(ui)
    os.killpg(server, signal.SIGKILL)
    assert ui.wait(LIMIT_S) == 2
    assert f"MLflow ended by itself (exit code -9); see {known.root}/mlflow.log" in ui.stdout.read()


def test_it_ends_while_mlflow_starts(ui):
    until(lambda: servers(ui))
    (server,) = servers(ui)
    os.kill(ui.pid, signal.SIGTERM)
    assert ui.wait(LIMIT_S) == 0
    until(lambda: not there(server))
    assert "MLflow ended." in ui.stdout.read()


def test_the_list_of_processes_does_not_show_the_store(tmp_path):
    """Its address may hold a password."""
    with held_port() as port, server(Home(tmp_path), port, f"sqlite:///{tmp_path}/s3cret.db"):
        shown = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"--port {port}" in shown
    assert "s3cret" not in shown
    assert (tmp_path / "s3cret.db").exists()
