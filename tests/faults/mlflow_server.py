"""An MLflow server that fails when it is told to: killed and started again, stopped, or with answers that get lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from contextlib import ExitStack

from service.storage.home import Home
from service.tracking.server import server
from tests.faults.proxy import Proxy
from tests.ports import held_port


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Mlflow:
    """A server on loopback with a store of its own, in a process group of its own."""

    def __init__(self, home: Home) -> None:
        self.home, self._held = home, ExitStack()
        self.port = self._held.enter_context(held_port())
        self.address = f"http://127.0.0.1:{self.port}"
        home.root.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        """Starts it, or starts it again on the same port and store."""
        self._open = ExitStack()
        self._process: subprocess.Popen[bytes] = self._open.enter_context(server(self.home, self.port))

    def signal(self, number: int) -> None:
        """Sends a signal to the server and its workers."""
        os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kills it as a machine would that loses its power."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Ends it for good."""
        self._open.close()
        self._held.close()


class LosesAnswers(Proxy):
    """A proxy that says 503 to each `every`-th request that changes something, though the server has done it.

    `lost`: how many answers it kept to itself.
    """

    def __init__(self, server: str, every: int) -> None:
        self.lost = self._asked = 0
        self._every, self._lock = every, threading.Lock()
        super().__init__(server)

    def loses(self, method: str, path: str) -> bool:
        with self._lock:
            changes = method != "GET" and "search" not in path
            self._asked += changes
            is_lost = changes and self._asked % self._every == 0
            self.lost += is_lost
            return is_lost
