"""A session with Ray: opened quietly, ended in all cases, whatever other threads do meanwhile."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ray
import ray._private.worker
from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR
from ray.job_config import JobConfig

import service
from service.execution.signals import Apart
from service.execution.tune import token
from service.execution.tune.local import GOES_ON, LocalRay, RayError, first_line
from service.planning.placement import Machine, Node


def machine(address: str, threads: int = 1) -> Machine:
    """What the cluster at hand has for runs of so many threads a worker. A node's cores beyond a multiple do not count.

    The memory of a node is what Ray lets processes ask for there. All of it happens in a thread, because Ray takes
    SIGTERM from the main one. Cost: a second, to connect.
    """
    found: list[dict[str, float]] = []
    apart = Apart()

    def work() -> None:
        with session(address):
            apart.share()
            found.extend(node["Resources"] for node in ray.nodes() if node["Alive"])

    apart.do(work)
    nodes = tuple(
        Node(cores=int(node.get("CPU", 0)) // threads * threads, gib=node.get("memory", 0.0) / 2**30) for node in found
    )
    gpus = sum(int(node.get("GPU", 0)) for node in found)
    return Machine(cores=sum(node.cores for node in nodes), gpus=gpus, nodes=nodes, grows=True)


@contextlib.contextmanager
def session(address: str, here: LocalRay | None = None, apart: Apart | None = None, **settings: Any) -> Iterator[None]:
    """A quiet session with Ray that is always ended. Failures are in the journal, with their reasons.

    Open it in a thread (`Apart`) if signals matter: in the main one Ray handles SIGTERM, also after the session.
    `here`: who starts a local one; `apart`: the thread that may be left while Ray starts.
    Raises: RayError with one sentence where Ray does not start, or no cluster answers.
    """
    token.clear_cached_token()
    settings = {"log_to_driver": False, "logging_level": logging.ERROR, "job_config": job_config(), **settings}
    if address == "local":
        here = here or LocalRay()
    with _quiet():
        try:
            if here is not None:
                here.start(apart or Apart(), **settings)
            else:
                _connect(address, settings)
            yield
        finally:
            with _no_garbage_collection(), here.ending() if here else contextlib.nullcontext():
                ray.shutdown()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Within the block Ray prints nothing here; by itself it prints the last lines of a dead raylet's log."""
    for name in ("ray.tune", "ray.train", "ray._private"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    known = ray._private.worker.print_to_stdstream
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        ray._private.worker.print_to_stdstream = known


def _connect(address: str, settings: dict[str, Any]) -> None:
    """Connects to a cluster. Raises: RayError with one sentence."""
    try:
        ray.init(address=address, **settings)
    except Exception as error:
        raise RayError(f"no Ray cluster can be used at {address} ({first_line(error)}); {GOES_ON}") from error


def job_config() -> JobConfig:
    """Where Ray's workers look for modules: first of all where this process's locus is.

    Ray itself would put the working folder first, and there a user's `service.py` or `random.py` would be found in the
    place of locus's or Python's. It stays where this process looks in it, too. A job of a cluster brings its own.
    """
    found = JobConfig()
    if RAY_JOB_CONFIG_JSON_ENV_VAR not in os.environ:
        found._client_job = True  # so Ray adds no working folder
        found._py_driver_sys_path = [*module_folders(sys.path, os.getcwd())]  # each is put before the others
    return found


def module_folders(path: Sequence[str], here: str) -> list[str]:
    """What workers must have in their path beside their Python's own, the most important one last."""
    root = str(Path(service.__file__).parents[1])
    own = [] if Path(root).name == "site-packages" else [root]
    looked_in = any(folder in ("", here) for folder in path)
    return ([here] if looked_in and here != root else []) + own


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collects garbage now, and not again before the end of the block.

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
