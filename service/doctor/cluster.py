"""Examines a cluster from a laptop: who may use it, its versions, and each of its nodes by a small job."""

from __future__ import annotations

import ipaddress
import platform
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit

import requests

from service.doctor.here import OPEN, Finding, clocks_apart, disk, gpus_of, memory_of, seen_by_node
from service.execution.jobs.asking import ask
from service.execution.jobs.client import ANSWER_S, JobError, connect
from service.execution.jobs.messages import Nodes
from service.execution.jobs.submission import Submission
from service.execution.tune.nodes import NodeAnswer, ask_nodes
from service.storage.home import Home
from trainables.spec import LocusError


def examine_cluster(address: str, home: str | None) -> Iterator[Finding]:
    """What is found at a cluster. An open one is not used: nothing is sent there. `home`: that of the cluster."""
    if is_open(address):
        do = "start every node with RAY_AUTH_MODE=token, and keep its ports off public networks"
        yield Finding("access", "wrong", f"{address} runs the code of whoever reaches it, without a token", do)
        return
    try:
        client = connect(address)
    except JobError as error:
        yield Finding("cluster", "wrong", str(error), "see deploy/README.md")
        return
    yield Finding("cluster", "ok", f"{address} takes jobs with this token, and has this Ray")
    yield secrecy(address)
    try:
        found = ask(Submission(client, address, "doctor", "", home), Nodes(home=home))
    except LocusError as error:
        yield Finding("nodes", "wrong", str(error), "look at the job in Ray's dashboard")
        return
    yield from map(Finding.read, found)


def is_open(address: str) -> bool:
    """Whether a cluster lists its jobs for somebody without a token. False if it does not answer."""
    try:
        return requests.get(f"{address.rstrip('/')}/api/jobs/", timeout=ANSWER_S).ok
    except requests.RequestException:
        return False


def secrecy(address: str) -> Finding:
    """Whether the token travels so that others on the network can read it."""
    parts = urlsplit(address)
    if parts.scheme == "https" or _is_loopback(parts.hostname or ""):
        return Finding("access", "ok", "a token is asked for, and does not travel in the open")
    what = f"the token travels unencrypted to {parts.hostname}"
    return Finding("access", "look", what, "use an SSH tunnel (ssh -L 8265:localhost:8265 HEAD) or https")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
