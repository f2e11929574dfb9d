"""Opens MLflow on this machine and says where to look.

The server is bound to the loopback address and ends with the command. Where studies are shown on a server already, only
the links are printed.
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
    say: Callable[[str], None] = print,
) -> None:
    """Starts MLflow on loopback, says the links of a study (of all without one), and waits for Ctrl-C.

    Raises: UiError where nothing was run yet or the server does not start.
    """
    check(home, tracking)
    if tracking and served(tracking):
        _say_links(home, edition, tracking, tracking, say)
        return
    with server(home, port, tracking) as address:
        _say_links(home, edition, tracking, address, say)
        say("Ctrl-C ends MLflow.")
        try:
            signal.pause()
        except KeyboardInterrupt:
            say("MLflow ended.")


@contextmanager
def server(home: Home, port: int, tracking: str | None = None) -> Iterator[str]:
    """An MLflow server of a home's store while the block lasts; gives its address. Cost: 9 s to start."""
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
    """The three addresses of a study at a server; None where it is not shown there."""
    store = look_up(home, edition, tracking)
    return links(store, address) if store else None


def _say_links(
    home: Home, edition: Edition | None, tracking: str | None, address: str, say: Callable[[str], None]
) -> None:
    editions = [edition] if edition else [_edition(home, id) for id in home.ids()]
    say(f"MLflow: {address}")
    for one in editions:
        found = find_links(home, one, address, tracking)
        if found is None:
            say(f"{one.id}: nothing shown yet")
            continue
        say(f"{one.id}")
        say(f"  trials, best first       {found.trials}")
        say(f"  runs, grouped by trial   {found.runs}")
        say(f"  the study, with report   {found.parent}")


def _edition(home: Home, id: str) -> Edition:
    return Edition.read(json.loads(home.study(id).study.read_text()))
