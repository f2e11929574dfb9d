"""Opens a session with Ray, on this machine alone or on a cluster, prints none of its messages, and always ends it.

A Ray of this machine alone is started again if it was slow, and listens on loopback only. If it dies, that is noticed.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ray
import ray._private.worker
from ray._private import ray_constants
from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR
from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]  # written in Cython
from ray.job_config import JobConfig

import service
from service.execution.signals import Apart
from service.planning.placement import Machine, Node
from trainables.spec import LocusError


def clear_cached_token() -> None:
    """Makes Ray read its token again, from the place that the environment names now.

    A process keeps the first token that it read, which may be that of another cluster.
    """
    if not ray.is_initialized():
        AuthenticationTokenLoader.instance().reset_cache()


def protect_local_token() -> None:
    """Makes the token of local Ray sessions readable by its owner alone; Ray would write it for all to read."""
    token = Path("~/.ray/auth_token").expanduser()
    token.parent.mkdir(parents=True, exist_ok=True)
    if not token.exists():
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32), encoding="utf-8")
    token.chmod(0o600)


TRIES = 3
"""How often Ray is started at most. Ray itself gives up after 30 s, and a busy machine may need longer."""
KILLED_S = 10.0
"""How long killed processes may take to end. Units: seconds."""
VITAL = {"raylet": "raylet, which starts the processes of the runs", "gcs_server": "GCS, which knows the runs"}
"""The processes of Ray that every run needs, by Ray's names, and in words what each of them does."""
GOES_ON = "what was measured is kept, and the same command goes on"


class RayError(LocusError):
    """The error of a Ray that did not start, or that ended while a study ran."""

    exit_code = 1


class LocalRay:
    """Starts a Ray on this machine, and raises an error when it has died.

    `folder` is the folder of Ray's sockets. `note` is called with each line that a person should read.
    """

    def __init__(self, folder: Path, note: Callable[[str], None] = lambda line: None) -> None:
        self._folder, self._note = folder, note
        self._before: set[Path] = set()  # the folders of this process's earlier sessions
        self._before = {*self._new_sessions()}
        self._node: Any = None

    def start(self, apart: Apart, **settings: Any) -> None:
        """Starts Ray, in up to three tries. Processes of a failed try are ended; the logs of the last try stay.

        `apart` is the thread in which Ray starts, and `settings` go to `ray.init`.
        Raises: RayError with one sentence; KeyboardInterrupt if nobody waits for the start any more.
        """
        protect_local_token()
        for number in range(1, TRIES + 1):
            try:
                # By itself Ray listens on loopback on macOS alone, and replaces a loopback address that it is given.
                # Its dashboard starts Python in the working folder, where a user's `random.py` would be found.
                with replaced(ray_constants, ENABLE_RAY_CLUSTER=False), _safe_path():
                    ray.init(address="local", _temp_dir=str(self._folder), **settings)
                self._node = ray._private.worker._global_node
                return
            except Exception as error:
                why = first_line(error)
                load = f"this machine has a load of {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
                with contextlib.suppress(Exception), self.ending():
                    ray.shutdown()
                apart.check()
                passes = isinstance(error, ConnectionError | TimeoutError)
                lasts = not passes and isinstance(error, OSError | ValueError | TypeError | ImportError)
                if number == TRIES or lasts:  # a file, a folder or a setting is the same at another try
                    logs = "".join(f", and its logs are in {folder / 'logs'}" for folder in self._new_sessions()[-1:])
                    tries = f"in {number} tries" if number > 1 else "here"
                    raise RayError(f"Ray did not start {tries} ({why}): {load}{logs}; {GOES_ON}") from error
                self._note(f"Ray did not start ({why}): {load}; try {number + 1} of {TRIES}")
                for session in self._new_sessions():
                    shutil.rmtree(session, ignore_errors=True)

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Kills, after the block in which Ray is shut down, the processes that Ray has not ended itself."""
        self._node = None
        left = self._processes()
        try:
            yield
        finally:
            _kill(left)

    def leave(self) -> None:
        """Kills the processes of a start that stands still, but not in its last step: there Ray would end this process.

        Ray also ends this process a minute after its GCS was killed, if the start goes on and asks the GCS. So a start
        that goes on is waited for (`Apart.share`).
        """
        if ray._private.worker._global_node is None:
            _kill(self._processes())

    def check(self) -> None:
        """Checks that the processes in `VITAL` live, which no other node replaces. Raises: RayError if one has died."""
        if (node := self._node) is None:
            return
        for name, process in node.dead_processes():
            if description := VITAL.get(name):
                logs = Path(node.get_session_dir_path()) / "logs"
                raise RayError(
                    f"Ray's {description}, has ended, from outside or because memory ran out (exit code "
                    f"{process.returncode}); its logs are in {logs}; {GOES_ON}"
                )

    def _new_sessions(self) -> list[Path]:
        """Returns the folders of the sessions that this object has begun, the oldest first."""
        return sorted({*self._folder.glob(f"session_*_{os.getpid()}")} - self._before)

    def _processes(self) -> list[Any]:
        """Returns the processes of this Ray: our children whose command names its folder, and all their descendants."""
        import psutil  # type: ignore[import-untyped]  # Ray brings it along

        names = [str(session) for session in self._new_sessions()]
        processes: list[Any] = []
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if any(name in word for word in child.cmdline() for name in names):
                    processes += [*child.children(recursive=True), child]
        return processes


def _kill(processes: list[Any]) -> None:
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, KILLED_S)


@contextlib.contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Gives attributes of a module or a class other values within the block."""
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Keeps each Python that is started within the block from importing modules of its working folder."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


def first_line(error: Exception) -> str:
    """Returns the first sentence of an error, or its last line if the first line ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return (lines[-1] if lines[0].endswith(":") else lines[0]).partition(". ")[0].rstrip(".")


def machine(address: str, threads: int = 1) -> Machine:
    """Returns the cores, GPUs and memory of the cluster at hand. `threads` is the number of threads of a worker.

    Each node's cores are rounded down to a multiple of `threads`. The memory of a node is what Ray lets processes ask
    for. Ray is asked in a thread, because in the main one it would take SIGTERM. Cost: a second, to connect.
    """
    resources: list[dict[str, float]] = []
    apart = Apart()

    def work() -> None:
        with session(address):
            apart.share()
            resources.extend(node["Resources"] for node in ray.nodes() if node["Alive"])

    apart.do(work)
    nodes = tuple(
        Node(cores=int(node.get("CPU", 0)) // threads * threads, gib=node.get("memory", 0.0) / 2**30)
        for node in resources
    )
    gpus = sum(int(node.get("GPU", 0)) for node in resources)
    return Machine(cores=sum(node.cores for node in nodes), gpus=gpus, nodes=nodes, grows=True)


@contextlib.contextmanager
def session(address: str, here: LocalRay | None = None, apart: Apart | None = None, **settings: Any) -> Iterator[None]:
    """Opens a session with Ray that prints nothing, and always ends it. Failures of runs go to the journal.

    Open it in a thread (`Apart`) if signals matter: in the main thread Ray handles SIGTERM, also after the session.

    Args:
        address: The address of the cluster.
        here: Starts a Ray on this machine, in place of the cluster.
        apart: The thread that may be left while Ray starts.
        settings: Further settings for `ray.init`.

    Raises: RayError with one sentence where Ray does not start, or no cluster answers.
    """
    clear_cached_token()
    settings = {"log_to_driver": False, "logging_level": logging.ERROR, "job_config": job_config(), **settings}
    for name in ("ray.tune", "ray.train", "ray._private"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with (
        # Ray would print the last lines of a dead raylet's log, and below `uv run` it would send the working folder,
        # images included, to workers that it starts by uv
        replaced(ray._private.worker, print_to_stdstream=lambda *_, **__: None),
        replaced(ray_constants, RAY_ENABLE_UV_RUN_RUNTIME_ENV=False),
    ):
        try:
            if here is not None:
                here.start(apart or Apart(), **settings)
            else:
                try:
                    ray.init(address=address, **settings)
                except Exception as error:
                    why = f"no Ray cluster can be used at {address} ({first_line(error)})"
                    raise RayError(f"{why}; {GOES_ON}") from error
            yield
        finally:
            with _no_garbage_collection(), here.ending() if here else contextlib.nullcontext():
                ray.shutdown()


def job_config() -> JobConfig:
    """Returns the setting that lets Ray's workers look for modules first where this process has its locus.

    Ray itself would put the working folder first, and there a user's `service.py` or `random.py` would be found in the
    place of locus's or Python's. The folder stays if this process looks in it, too. A job of a cluster brings its own
    setting.
    """
    config = JobConfig()
    if RAY_JOB_CONFIG_JSON_ENV_VAR not in os.environ:
        config._client_job = True  # so Ray adds no working folder
        config._py_driver_sys_path = [*module_folders(sys.path, os.getcwd())]  # each is put before the others
    return config


def module_folders(path: Sequence[str], here: str) -> list[str]:
    """Returns the folders that workers need in their path beside their Python's own, the most important one last."""
    root = str(Path(service.__file__).parents[1])
    roots = [] if Path(root).name == "site-packages" else [root]
    is_looked_in = any(folder in ("", here) for folder in path)
    return ([here] if is_looked_in and here != root else []) + roots


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collects garbage before the block, and none within it.

    Tune leaves references to Ray's objects in cycles. While a session ends, another thread of this process (such as
    the one that writes to MLflow) may happen to collect them. Ray then ends the process, with exit code 1 and no word.
    """
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
