"""A Ray cluster of two nodes on this machine, with a token: in process groups of its own, which `end` ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import requests

PATIENCE_S = 60
RAY = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats")
HEAD = ("port", "ray-client-server-port", "dashboard-port")
EACH = (
    "node-manager-port",
    "object-manager-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "metrics-export-port",
)


class Cluster:
    """Two raylets, the head with the jobs' server. `env` is what a client needs: the token, and no other Ray."""

    def __init__(self, folder: Path, cores: int = 1) -> None:
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text("e" * 48)
        self.folder = folder
        known = {name: value for name, value in os.environ.items() if not name.startswith(("RAY", "MLFLOW", "LOCUS"))}
        self.env = known | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        own = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        }
        self._env = self.env | own | {"MLFLOW_DISABLE_TELEMETRY": "true"}
        ports = _free(len(HEAD) + 2 * len(EACH))
        head = {name: ports.pop() for name in HEAD}
        self.address = f"http://127.0.0.1:{head['dashboard-port']}"
        self.gcs = f"127.0.0.1:{head['port']}"
        at = [*_options(head), "--head", "--dashboard-host", "127.0.0.1"]
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._nodes.append(self._start(*at, *_options({name: ports.pop() for name in EACH}), cores=cores))
        try:
            self._wait()
            joined = ["--address", self.gcs, *_options({name: ports.pop() for name in EACH})]
            self._nodes.append(self._start(*joined, cores=cores))
            self._joined()
        except BaseException:
            self.end()
            raise

    def _start(self, *options: str, cores: int) -> subprocess.Popen[bytes]:
        """A node with a folder of its own: in a shared one, the second unpacks a job's files over those in use."""
        log = (self.folder / "nodes.log").open("ab")
        common = ("--node-ip-address", "127.0.0.1", "--num-cpus", str(cores), "--object-store-memory", str(100 * 2**20))
        where = ("--temp-dir", str(self.folder / str(len(self._nodes))))
        return subprocess.Popen(
            [*RAY, *common, *where, *options],
            env=self._env,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=self.folder,
        )

    def _wait(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                requests.get(f"{self.address}/api/version", timeout=2)
                return
            except requests.RequestException:
                assert time.monotonic() < until, (self.folder / "nodes.log").read_text()
                time.sleep(0.3)

    def _joined(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while (said := (self.folder / "nodes.log").read_text()).count("Ray runtime started.") < 2:
            assert time.monotonic() < until, said
            time.sleep(0.2)

    def end(self) -> None:
        """Ends both nodes and all that they started."""
        for node in self._nodes:
            _signal(node, signal.SIGTERM)
        for node in self._nodes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.wait(15)
            _signal(node, signal.SIGKILL)
            node.wait(10)


def _signal(node: subprocess.Popen[bytes], what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(node.pid, what)


def _options(ports: dict[str, int]) -> list[str]:
    return [word for name, port in ports.items() for word in (f"--{name}", str(port))]


def _free(count: int) -> list[int]:
    """Ports that nobody holds now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
