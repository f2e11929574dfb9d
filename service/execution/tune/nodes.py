"""Asks each node of the cluster at hand, in a process there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from service.execution.tune.ray_session import session

ANSWER_S = 120.0
"""How long a node may take to start a process that imports torch."""


@dataclass(frozen=True)
class NodeAnswer:
    """What a node answered, beside what Ray says of it.

    `sent`, `came`: when it was asked, and when its answer was there; `error`: why there is none. Units: seconds since
    1970; GiB.
    """

    address: str
    cores: int
    gib: float
    sent: float
    came: float
    answer: dict[str, Any] | None
    error: str = ""


def ask_nodes(address: str, question: Callable[..., dict[str, Any]], *arguments: Any) -> list[NodeAnswer]:
    """The answers of all living nodes. Cost: some seconds, and nothing of the nodes' cores."""
    with session(address):
        return [_ask(node, question, *arguments) for node in ray.nodes() if node["Alive"]]


def _ask(node: dict[str, Any], question: Callable[..., dict[str, Any]], *arguments: Any) -> NodeAnswer:
    there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    remote = ray.remote(num_cpus=0, max_retries=0)(question).options(scheduling_strategy=there)
    sent = time.time()
    answer, error = None, ""
    try:
        answer = ray.get(remote.remote(*arguments), timeout=ANSWER_S)
    except Exception as why:  # of the node, of Ray, or of what is installed there
        error = str(why).strip().splitlines()[-1]
    has = node["Resources"]
    name, cores, gib = node["NodeManagerAddress"], int(has.get("CPU", 0)), has.get("memory", 0.0) / 2**30
    return NodeAnswer(name, cores, gib, sent, time.time(), answer, error)
