"""Starts MLflow on this machine, bound to the loopback address, and prints the links of studies.

The server ends with the command, also if its terminal is closed. If an MLflow on that port already shows the same runs,
the command uses it and leaves it running. For studies on a tracking server, it prints only the links.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from search_spaces.study import Edition
from service.execution.signals import ENDS, handled
from service.storage import editions
from service.storage.home import Home
from service.tracking.databases import MlflowError, is_there
from service.tracking.rows import STUDY
from service.tracking.store import look_up
from service.tracking.sync import check, served, trouble
from service.tracking.views import TRAINING, Links, links
from trainables.polling import poll
from trainables.spec import LocusError

READY_S, END_S = 60, 10
"""The seconds that MLflow may take to start, and those that it may take to end before it is killed."""
PAUSE_S = 0.2
"""The seconds between two checks whether the server lives."""


class UiError(LocusError):
    """The error for an MLflow that does not start, ends by itself, or has nothing to show."""


def serve(
    home: Home,
    edition: Edition | None,
    port: int = 5000,
    tracking: str | None = None,
    note: Callable[[str], None] = print,
) -> None:
    """Starts MLflow on this machine, prints the links of a study (of all, if it is None), and waits for Ctrl-C.

    Raises: UiError if nothing was run yet, the server does not start, or it ends by itself.
    """
    check(home, tracking)
    if tracking and served(tracking):
        _note_links(home, edition, tracking, tracking, note)
        return
    address = f"http://127.0.0.1:{port}"
    if not is_there(tracking or home.tracking):
        raise UiError(f"{home.root} has no MLflow runs yet; locus run makes some")
    if not trouble(address):
        if not _shows_same(home, address, tracking):
            raise UiError(f"port {port} must be free, got an MLflow of other runs there; give another --port")
        _note_links(home, edition, tracking, address, note)
        note("MLflow ran already; it stays.")
        return
    log, received = _log_file(home), list[int]()
    with (
        handled(lambda number, _: received.append(number), may_be_ignored=(signal.SIGINT, *ENDS)),
        server(home, port, tracking, received, log) as process,
    ):
        if not received:
            _note_links(home, edition, tracking, address, note)
            note("Ctrl-C ends MLflow.")
        poll(lambda: received or process.poll() is not None, PAUSE_S)
        code = process.poll()
    if not received:
        raise UiError(f"MLflow ended by itself (exit code {code}); see {log}")
    if signal.SIGHUP not in received:  # then there is no terminal to print to
        note("MLflow ended.")


@contextmanager
def server(
    home: Home, port: int, tracking: str | None = None, received: Sequence[int] = (), log: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs an MLflow server for a home's store while the block lasts, and yields its process. Cost: 9 s to start.

    Once `received` holds a signal, the function does not wait for the start. MLflow prints to the file `log`.
    Raises: UiError if it does not start.
    """
    log = log or _log_file(home)
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    # the store's address may hold a password, which every user of the machine could list
    environment = os.environ | quiet | {"MLFLOW_BACKEND_STORE_URI": tracking or home.tracking}
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--default-artifact-root", home.artifacts.as_uri()]
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )

    def group_has(number: int) -> bool:
        """Sends a signal to the server's processes (0 sends none). Returns False if no process is left."""
        process.poll()  # a process that ended counts as there until it was waited for
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return False
        return True

    try:
        address = f"http://127.0.0.1:{port}"
        poll(lambda: received or process.poll() is not None or not trouble(address), PAUSE_S, READY_S)
        if not received and trouble(address):
            raise UiError(f"MLflow did not start at {address}; see {log}")
        yield process
    finally:  # the server and its workers are a process group, which may outlive its first process
        group_has(signal.SIGTERM)
        if not poll(lambda: not group_has(0), PAUSE_S, END_S):
            group_has(signal.SIGKILL)
        process.wait()


def _log_file(home: Home) -> Path:
    """Returns the file to which MLflow prints: in the home, or in a temporary folder if the home can only be read."""
    folder = home.root if os.access(home.root, os.W_OK) else Path(tempfile.mkdtemp(prefix="locus-mlflow-"))
    return folder / "mlflow.log"


def _shows_same(home: Home, address: str, tracking: str | None) -> bool:
    """Returns whether a server shows the MLflow run of a study of this home; no other store has a run of its id."""
    for edition in _editions(home, None):
        stored = look_up(home, edition, tracking)
        if stored is None:
            continue
        try:
            on_server = look_up(home, edition, address)
        except MlflowError:
            return False
        if STUDY in stored.shown:
            run = on_server.shown.get(STUDY) if on_server else None
            return run is not None and run.id == stored.shown[STUDY].id
    return False


def find_links(home: Home, edition: Edition, address: str, tracking: str | None = None) -> Links | None:
    """Returns the addresses of a study at a server; None if the store does not have the study."""
    store = look_up(home, edition, tracking)
    return links(store, address) if store else None


def reachable_links(home: Home, edition: Edition, server: str) -> Links | None:
    """Returns what `find_links` does, but None also if the server does not answer, or answers with an error."""
    try:
        return None if trouble(server) else find_links(home, edition, server, server)
    except MlflowError:
        return None


def _note_links(
    home: Home, edition: Edition | None, tracking: str | None, address: str, note: Callable[[str], None]
) -> None:
    note(f"MLflow: {address.rstrip('/')}/#/experiments?{TRAINING}")
    for each in _editions(home, edition):
        addresses = find_links(home, each, address, tracking)
        if addresses is None:
            note(f"{each.id}: nothing shown yet")
            continue
        note(f"{each.id}")
        note(f"  trials, best first       {addresses.trials}")
        note(f"  runs, grouped by trial   {addresses.runs}")
        note(f"  runs, flat               {addresses.flat}")
        note(f"  the study, with report   {addresses.parent}")


def _editions(home: Home, edition: Edition | None) -> list[Edition]:
    """Returns the given edition, or all editions of a home if it is None, without those that cannot be read."""
    readable = [edition] if edition else []
    for id in [] if edition else home.ids():
        with suppress(LocusError, ValueError, OSError):
            readable.append(editions.stored(home, id))
    return readable
