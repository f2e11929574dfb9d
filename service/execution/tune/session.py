"""A session with Ray: opened quietly, ended in all cases, whatever signals and other threads do meanwhile."""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import threading
from collections.abc import Iterator
from typing import Any

import ray

from service.execution.signals import ENDS
from service.execution.tune import token
from service.planning.placement import Machine, Node


def machine(address: str, threads: int = 1) -> Machine:
    """What the cluster at hand has for runs of so many threads a worker. A node's cores beyond a multiple do not count.

    The memory of a node is what Ray lets processes ask for there. Cost: a second, to connect.
    """
    with session(address):
        found = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    nodes = tuple(
        Node(cores=int(node.get("CPU", 0)) // threads * threads, gib=node.get("memory", 0.0) / 2**30) for node in found
    )
    gpus = sum(int(node.get("GPU", 0)) for node in found)
    return Machine(cores=sum(node.cores for node in nodes), gpus=gpus, nodes=nodes, grows=True)


@contextlib.contextmanager
def session(address: str, **settings: Any) -> Iterator[None]:
    """A quiet session with Ray that is always ended. Failures are in the journal, with their reasons."""
    for name in ("ray.tune", "ray.train", "ray._private"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if address == "local":
        token.protect_local_token()
    token.clear_cached_token()
    try:
        with _undisturbed():  # an interrupted start leaves agents running that nobody ends
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **settings)
        yield
    finally:
        with _undisturbed(), _no_garbage_collection():
            ray.shutdown()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Delays the signals that end a study until the end of the block, and undoes what Ray does to them.

    `execution/signals.py` still counts them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    known = {one: signal.signal(one, lambda number, _: came.append(number)) for one in (signal.SIGINT, *ENDS)}
    try:
        yield
    finally:
        for one, before in known.items():
            signal.signal(one, before)
        for number in came:
            if callable(before := known[signal.Signals(number)]):
                before(number, None)


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
