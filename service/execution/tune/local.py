"""A Ray of this machine's own: started again if it was slow, on loopback alone, and its end is noticed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ray
import ray._private.worker
from ray._private import ray_constants

from service.execution.signals import Apart
from service.execution.socket_folder import socket_folder
from service.execution.tune import token
from trainables.spec import LocusError

TRIES = 3
"""How often the start is tried. Ray gives up by itself after 30 s, which a busy machine may need."""
KILLED_S = 10.0
"""How long killed processes may take to be gone."""
VITAL = {"raylet": "raylet, which starts the processes of the runs", "gcs_server": "GCS, which knows the runs"}
"""The processes of Ray without which no run goes on, and what each is."""
GOES_ON = "what was measured is kept, and the same command goes on"


class RayError(LocusError):
    """A Ray that did not start, or that ended while a study ran."""

    exit_code = 1


class LocalRay:
    """Starts a Ray on this machine, and tells when it has died. `note` is called with a line for a person."""

    def __init__(self, note: Callable[[str], None] = lambda line: None) -> None:
        self._note = note
        self._folder = socket_folder()
        self._before = self._sessions()
        self._node: Any = None

    def start(self, apart: Apart, **settings: Any) -> None:
        """Starts Ray, in up to three tries. What a failed try has left is ended; the logs of the last one stay.

        Raises: RayError with one sentence; KeyboardInterrupt if nobody waits for it any more.
        """
        token.protect_local_token()
        for number in range(1, TRIES + 1):
            try:
                with _shielded():
                    ray.init(address="local", _temp_dir=str(self._folder), **settings)
                self._node = ray._private.worker._global_node
                return
            except Exception as error:
                why = first_line(error)
                with contextlib.suppress(Exception), self.ending():
                    ray.shutdown()
                apart.check()
                if number == TRIES or _is_final(error):
                    logs = "".join(f", and its logs are in {one / 'logs'}" for one in self._new_sessions()[-1:])
                    tries = f"in {number} tries" if number > 1 else "here"
                    raise RayError(f"Ray did not start {tries} ({why}): {_load()}{logs}; {GOES_ON}") from error
                self._note(f"Ray did not start ({why}): {_load()}; try {number + 1} of {TRIES}")
                for session in self._new_sessions():
                    shutil.rmtree(session, ignore_errors=True)

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Ray is shut down within the block. What it does not end, such as after the death of a part, is ended then."""
        self._node = None
        left = self._processes()
        try:
            yield
        finally:
            _kill(left)

    def leave(self) -> None:
        """Ends what a start that is left has begun; not in its last step, in which Ray would end this process."""
        if ray._private.worker._global_node is None:
            _kill(self._processes())

    def check(self) -> None:
        """Raises: RayError if a process of Ray has died: on this machine there is no other node to wait for."""
        if (node := self._node) is None:
            return
        for name, process in node.dead_processes():
            if what := VITAL.get(name):
                logs = Path(node.get_session_dir_path()) / "logs"
                raise RayError(
                    f"Ray's {what}, has ended, from outside or because memory ran out (exit code "
                    f"{process.returncode}); its logs are in {logs}; {GOES_ON}"
                )

    def _sessions(self) -> set[Path]:
        """The folders of this process's sessions; their names begin with the time."""
        return {*self._folder.glob(f"session_*_{os.getpid()}")}

    def _new_sessions(self) -> list[Path]:
        return sorted(self._sessions() - self._before)

    def _processes(self) -> list[Any]:
        """The processes of this Ray alone: children of this process that name the session's folder, and all below."""
        import psutil  # type: ignore[import-untyped]  # Ray brings it along

        names = [str(session) for session in self._new_sessions()]
        found: list[Any] = []
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if any(name in word for word in child.cmdline() for name in names):
                    found += [*child.children(recursive=True), child]
        return found


def _kill(processes: list[Any]) -> None:
    """Kills those that live, and waits until they are gone."""
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, KILLED_S)


SAFE_PATH = "PYTHONSAFEPATH"
"""Python's variable that keeps the working folder out of the path of modules."""


@contextlib.contextmanager
def _shielded() -> Iterator[None]:
    """A Ray that starts within the block listens on 127.0.0.1 alone, and none of its processes imports a user's files.

    By itself it listens there on macOS; a loopback address that it is given it replaces by the machine's own. Its
    dashboard starts Python in the working folder, where a user's `random.py` would be found in the place of Python's.
    """
    cluster, path = ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(SAFE_PATH)
    ray_constants.ENABLE_RAY_CLUSTER, os.environ[SAFE_PATH] = False, "1"
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = cluster
        del os.environ[SAFE_PATH]
        if path is not None:
            os.environ[SAFE_PATH] = path


def _is_final(error: Exception) -> bool:
    """Whether another try meets the same error: of a file or folder, or of a setting."""
    if isinstance(error, ConnectionError | TimeoutError):
        return False
    return isinstance(error, OSError | ValueError | TypeError | ImportError)


def first_line(error: Exception) -> str:
    """The first sentence of an error; the last line where the first one only announces what follows."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return (lines[-1] if lines[0].endswith(":") else lines[0]).partition(". ")[0].rstrip(".")


def _load() -> str:
    """How busy this machine is, in words."""
    return f"this machine has a load of {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
