"""Starts MLflow on this machine and prints the links of studies.

The server is bound to the loopback address and ends with the command. For studies on a tracking server, only the links
are printed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mlflow.exceptions import MlflowException

from search_spaces.study import Edition
from service.storage.home import Home
from service.tracking.store import look_up
from service.tracking.sync import answers, check, served
from service.tracking.views import Links, links
from trainables.spec import LocusError

READY_S = 60
"""How long MLflow may take to start."""


class UiError(LocusError):
    """An MLflow that does not start, or has nothing to show."""


def serve(
    home: Home,
    edition: Edition | None,
    port: int = 5000,
    tracking: str | None = None,
    note: Callable[[str], None] = print,
) -> None:
    """Starts MLflow on loopback, prints the links of a study (without one, of all), and waits for Ctrl-C.

    Raises: UiError where nothing was run yet or the server does not start.
    """
    check(home, tracking)
    if tracking and served(tracking):
        _note_links(home, edition, tracking, tracking, note)
        return
    with server(home, port, tracking) as address:
        _note_links(home, edition, tracking, address, note)
        note("Ctrl-C ends MLflow.")
        try:
            signal.pause()
        except KeyboardInterrupt:
            note("MLflow ended.")


@contextmanager
def server(home: Home, port: int, tracking: str | None = None) -> Iterator[str]:
    """An MLflow server of a home's store while the block lasts; yields its address. Cost: 9 s to start."""
    store = tracking or home.tracking
    if tracking is None and not (home.root / "mlflow.db").exists():
        raise UiError(f"{home.root} has no MLflow runs yet; locus run makes some")
    address = f"http://127.0.0.1:{port}"
    if answers(address):
        raise UiError(f"port {port} must be free, got an MLflow that answers there already; give another --port")
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", store, "--default-artifact-root", home.artifacts.as_uri()]
    with (home.root / "mlflow.log").open("ab") as log:
        process = subprocess.Popen(
            command, env=os.environ | quiet, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _wait(process, address, home)
        yield address
    finally:
        _end(process)


def _wait(process: subprocess.Popen[bytes], address: str, home: Home) -> None:
    until = time.monotonic() + READY_S
    while not answers(address):
        if process.poll() is not None or time.monotonic() > until:
            raise UiError(f"MLflow did not start at {address}; see {home.root / 'mlflow.log'}")
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the server and its workers: a process group of their own."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    except ProcessLookupError:
        process.wait()


def find_links(home: Home, edition: Edition, address: str, tracking: str | None = None) -> Links | None:
    """The three addresses of a study at a server; None where the server does not have it."""
    store = look_up(home, edition, tracking)
    return links(store, address) if store else None


def reachable_links(home: Home, edition: Edition, server: str) -> Links | None:
    """The same for a page that can do without them; None also where the server does not answer, or refuses."""
    try:
        return find_links(home, edition, server, server) if answers(server) else None
    except MlflowException:
        return None


def _note_links(
    home: Home, edition: Edition | None, tracking: str | None, address: str, note: Callable[[str], None]
) -> None:
    editions = [edition] if edition else [_edition(home, id) for id in home.ids()]
    note(f"MLflow: {address}")
    for one in editions:
        found = find_links(home, one, address, tracking)
        if found is None:
            note(f"{one.id}: nothing shown yet")
            continue
        note(f"{one.id}")
        note(f"  trials, best first       {found.trials}")
        note(f"  runs, grouped by trial   {found.runs}")
        note(f"  the study, with report   {found.parent}")


def _edition(home: Home, id: str) -> Edition:
    return Edition.read(json.loads(home.study(id).study.read_text()))
