"""A Ray cluster of two nodes on this machine, with a token: in process groups of its own, which `end` ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import requests

from tests.journeys.processes import kill_tree, titled
from tests.ports import held_port
from tests.waiting import LIMIT_S, until

HEAD_NODE, WORKER_NODE = 0, 1
HOSTS = ("127.0.0.1", "127.0.0.2")
"""With one address for both, a driver on the head may belong to the other node, and would die with it."""
RAY = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats")
HEAD = ("port", "ray-client-server-port", "dashboard-port")
"""The ports that a client must know, or that Ray would choose by itself, are held while the cluster may be reached."""
EACH = ("--dashboard-agent-listen-port", "0", "--min-worker-port", "0", "--max-worker-port", "0")
"""Where Ray has numbers of its own for each node of each cluster. So all other servers of a node take free ports."""
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
    with tempfile.TemporaryDirectory(prefix="c-", ignore_cleanup_errors=True) as folder, ExitStack() as held:
        ports = {name: held.enter_context(held_port()) for name in HEAD}
        found = Cluster(Path(folder), ports, is_open=is_open, **env)
        try:
            yield found
        finally:
            found.end()


class Cluster:
    """Two raylets, the head with the jobs' server. `env` is what a client needs: the `token`, and no other Ray.

    `ports`: those of its head. `is_open`: it takes jobs of everybody, without a token. `environment`: what its nodes,
    and so all jobs, have.
    """

    def __init__(self, folder: Path, ports: dict[str, int], *, is_open: bool = False, **environment: str) -> None:
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
        self.address = f"http://127.0.0.1:{ports['dashboard-port']}"
        self.gcs = f"127.0.0.1:{ports['port']}"
        head = [word for name, port in ports.items() for word in (f"--{name}", str(port))]
        self._options = ([*head, "--head", "--dashboard-host", "127.0.0.1"], ["--address", self.gcs])
        self._begun = 0
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        try:
            self.start(HEAD_NODE)
            self.start(WORKER_NODE)
        except BaseException:
            self.end()
            raise

    def start(self, node: int) -> None:
        """Starts a node and waits for it. A head that was started before is at the same address again.

        It has a folder of its own: in a shared one, the second node unpacks a job's files over those in use.
        """
        common = ("--node-ip-address", HOSTS[node], "--num-cpus", "1", *EACH)
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
        until(lambda: self._is_up(node), self._log)

    def kill(self, node: int) -> None:
        """Kills a node as a machine that loses its power: every process of it at once, its drivers and runs too."""
        kill_tree(self._nodes[node].pid)
        self._nodes.pop(node).wait(LIMIT_S)

    def drain(self, seconds: int) -> None:
        """Tells the cluster that its worker node will be preempted after some seconds, as a cloud does."""
        subprocess.run([sys.executable, "-c", DRAIN, self.gcs, str(seconds)], env=self.env, check=True, timeout=LIMIT_S)

    def processes(self, *names: str) -> list[int]:
        """The pids of the nodes' living processes whose title begins with one of the names."""
        return [pid for node in self._nodes.values() for pid in titled(node.pid, *names)]

    def _log(self) -> str:
        return (self.folder / "nodes.log").read_text()

    def _is_up(self, node: int) -> bool:
        assert self._nodes[node].poll() is None, f"a node ended: {self._log()}"
        if self._log().count("Ray runtime started.") < self._begun:
            return False
        with contextlib.suppress(requests.RequestException):
            return node != HEAD_NODE or requests.get(f"{self.address}/api/version", timeout=LIMIT_S).status_code > 0
        return False

    def end(self) -> None:
        """Ends both nodes and all that they started."""
        for node in self._nodes.values():
            _signal(node, signal.SIGTERM)
        for node in self._nodes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.wait(15)
            _signal(node, signal.SIGKILL)
            node.wait(LIMIT_S)


def _signal(node: subprocess.Popen[bytes], what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(node.pid, what)
