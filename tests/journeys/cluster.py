"""A Ray cluster of two nodes on this machine, with a token: in process groups of its own, which `end` ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import requests

from tests.journeys.processes import kill_tree, titled

PATIENCE_S = 60
HEAD_NODE, WORKER_NODE = 0, 1
HOSTS = ("127.0.0.1", "127.0.0.2")
"""With one address for both, a driver on the head may belong to the other node, and would die with it."""
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
DRAIN = """
import sys, time
from ray._raylet import GcsClient
from ray.core.generated import autoscaler_pb2
gcs, seconds = sys.argv[1:]
client = GcsClient(address=gcs)
(node,) = [id.hex() for id, node in client.get_all_node_info().items() if not node.is_head_node and node.state == 0]
reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
accepted, why = client.drain_node(node, reason, "preempted", int((time.time() + float(seconds)) * 1000))
assert accepted, why
"""
"""What `ray drain-node` does, which does not tell how nodes are called."""


@contextlib.contextmanager
def cluster_of_two(*, is_open: bool = False, **env: str) -> Iterator[Cluster]:
    """A cluster in a temporary folder, whose path is short enough for Ray's sockets. `env`: of its nodes."""
    with tempfile.TemporaryDirectory(prefix="c-", ignore_cleanup_errors=True) as folder:
        found = Cluster(Path(folder), is_open=is_open, **env)
        try:
            yield found
        finally:
            found.end()


class Cluster:
    """Two raylets, the head with the jobs' server. `env` is what a client needs: the `token`, and no other Ray.

    `is_open`: it takes jobs of everybody, without a token. `environment`: what its nodes, and so all jobs, have.
    """

    def __init__(self, folder: Path, cores: int = 1, *, is_open: bool = False, **environment: str) -> None:
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text("e" * 48)
        self.folder = folder
        known = {name: value for name, value in os.environ.items() if not name.startswith(("RAY", "MLFLOW", "LOCUS"))}
        self.token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        self.env = known | ({"RAY_AUTH_MODE": "disabled"} if is_open else self.token)
        own = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        }
        self._env = self.env | own | {"MLFLOW_DISABLE_TELEMETRY": "true"} | environment
        ports = _free(len(HEAD) + 2 * len(EACH))
        head = {name: ports.pop() for name in HEAD}
        self.address = f"http://127.0.0.1:{head['dashboard-port']}"
        self.gcs = f"127.0.0.1:{head['port']}"
        of_each = [_options({name: ports.pop() for name in EACH}) for _ in range(2)]
        self._options = (
            [*_options(head), "--head", "--dashboard-host", "127.0.0.1", *of_each[0]],
            ["--address", self.gcs, *of_each[1]],
        )
        self._cores, self._begun = cores, 0
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        try:
            self.start(HEAD_NODE)
            self.start(WORKER_NODE)
        except BaseException:
            self.end()
            raise

    def start(self, node: int) -> None:
        """Starts a node and waits for it. One that was started before gets the same ports.

        It has a folder of its own: in a shared one, the second node unpacks a job's files over those in use.
        """
        common = ("--node-ip-address", HOSTS[node], "--num-cpus", str(self._cores))
        self._begun += 1
        where = ("--object-store-memory", str(100 * 2**20), "--temp-dir", str(self.folder / str(self._begun)))
        with (self.folder / "nodes.log").open("ab") as log:
            self._nodes[node] = subprocess.Popen(
                [*RAY, *common, *where, *self._options[node]],
                env=self._env,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
            )
        if node == HEAD_NODE:
            self._wait()
        self._joined()

    def kill(self, node: int) -> None:
        """Kills a node as a machine that loses its power: every process of it at once, its drivers and runs too."""
        kill_tree(self._nodes[node].pid)
        self._nodes.pop(node).wait(10)

    def drain(self, seconds: int) -> None:
        """Tells the cluster that its worker node will be preempted after some seconds, as a cloud does."""
        subprocess.run([sys.executable, "-c", DRAIN, self.gcs, str(seconds)], env=self.env, check=True, timeout=60)

    def processes(self, *names: str) -> list[int]:
        """The pids of the nodes' living processes whose title begins with one of the names."""
        return [pid for node in self._nodes.values() for pid in titled(node.pid, *names)]

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
        while (said := (self.folder / "nodes.log").read_text()).count("Ray runtime started.") < self._begun:
            assert time.monotonic() < until, said
            time.sleep(0.2)

    def end(self) -> None:
        """Ends both nodes and all that they started."""
        for node in self._nodes.values():
            _signal(node, signal.SIGTERM)
        for node in self._nodes.values():
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
