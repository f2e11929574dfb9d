"""Examines a cluster from a laptop: who may use it, its versions, and each of its nodes by a small job."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

import requests

from service.doctor.finding import Finding
from service.execution.jobs.asking import ask
from service.execution.jobs.client import ANSWER_S, JobError, connect
from service.execution.jobs.messages import Nodes
from service.execution.jobs.submission import Submission
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
    """Whether a cluster lists its jobs for somebody without a token. False where it does not answer."""
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
