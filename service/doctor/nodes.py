"""Examines the nodes of the cluster that this process belongs to: what a job does there for `locus doctor`."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Iterator

from service.doctor.finding import Finding
from service.doctor.here import OPEN, clocks_apart, disk, gpus_of, memory_of
from service.doctor.node import seen_by_node
from service.execution.tune.nodes import NodeAnswer, ask_nodes
from service.storage.home import Home


def examine_nodes(home: Home) -> list[Finding]:
    """What is found on each node. A file is written into the home, to see which nodes see it, and removed."""
    mark = f".doctor-{uuid.uuid4().hex}"
    Home.usable(home.root).root.mkdir(parents=True, exist_ok=True)
    try:
        (home.root / mark).touch()
        answers = ask_nodes("auto", seen_by_node, str(home.root), mark)
    finally:
        (home.root / mark).unlink(missing_ok=True)
    return [finding for answer in answers for finding in of_node(answer, home)]


def of_node(node: NodeAnswer, home: Home) -> Iterator[Finding]:
    """What the answer of one node tells."""
    if node.answer is None:
        do = "install the same Python there, and in a checkout of locus: pip install '.[train]'"
        yield Finding(f"node {node.address}", "wrong", f"it does not answer: {node.error}", do)
        return
    seen, name = node.answer, f"node {node.address}"
    whose = f"{seen['host']} ({node.address})"
    if seen["python"] != platform.python_version():
        what = f"{whose} has Python {seen['python']}, the head {platform.python_version()}"
        yield Finding("packages", "wrong", what, "use the same on all nodes")
    else:
        yield Finding(name, "ok", f"{seen['host']}, Python {seen['python']}, torch {seen['torch']}")
    if not seen["shared"]:
        do = "give a folder that all nodes share, or a --storage URI"
        yield Finding("home", "wrong", f"{whose} does not see {home.root} as the head does", do)
    elif seen["open"]:
        yield Finding("home", "wrong", f"{home.root} {OPEN}", f"chmod o-w {home.root}")
    if seen["free"] is not None:
        yield disk(f"{home.root} of {whose}", seen["free"])
    ahead, behind = max(0.0, seen["time"] - node.came), max(0.0, node.sent - seen["time"])
    yield clocks_apart(f"the clock of {whose}", ahead - behind)
    yield gpus_of(whose, seen["gpus"], seen["gpus_of_torch"])
    yield memory_of(whose, node.cores, node.gib)
