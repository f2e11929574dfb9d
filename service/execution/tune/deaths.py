"""Deaths of processes that Ray tells Tune in another way than Tune expects, or before it knows what has died."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import RayActorError, RayError, RayTaskError

ANSWER_S = 2.0
"""How long a node may take to accept a connection."""


@contextmanager
def told_as_dead_actors() -> Iterator[None]:
    """Within the block every death of a process is an actor's death, which Tune records as the error of one run.

    Tune knows two errors: an actor died, or its code raised. Any other, such as that Ray killed a process because its
    node ran out of memory, would end Tune, and all runs with it.
    """
    known = RayActorManager._actor_task_failed

    def failed(manager: Any, tracked_actor_task: Any, exception: Exception) -> None:
        unknown = isinstance(exception, RayError) and not isinstance(exception, RayActorError | RayTaskError)
        known(manager, tracked_actor_task, RayActorError(error_msg=str(exception)) if unknown else exception)

    RayActorManager._actor_task_failed = failed
    try:
        yield
    finally:
        RayActorManager._actor_task_failed = known


def living_nodes() -> set[str]:
    """The names of the nodes that Ray takes for alive."""
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


def is_node_gone(before: Collection[str]) -> bool:
    """Whether a node that was alive before is dead, does not answer, or was started again at the same address.

    Ray itself notices after some 20 s. What was started again answers in the place of the dead one.
    """
    known = ray.nodes()
    new = {_address(node) for node in known if node["Alive"] and node["NodeID"] not in before}
    return any(
        not node["Alive"] or _address(node) in new or not _answers(*_address(node))
        for node in known
        if node["NodeID"] in before
    )


def _address(node: dict[str, Any]) -> tuple[str, int]:
    return node["NodeManagerAddress"], node["NodeManagerPort"]


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), ANSWER_S).close()
    except OSError:
        return False
    return True
