"""Submits studies to a Ray cluster. Only this file imports Ray Jobs.

`submission.py` writes the files that a job carries. A job's metadata hold no secret, because everyone with the token
can read them.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import requests
from ray.exceptions import RayError
from ray.job_submission import JobSubmissionClient

from search_spaces.study import Edition
from service.execution import ray_session
from service.execution.submission import ENDED, Submission, UnpackedError, send, study_sent
from service.planning.run_options import RunOptions
from service.storage.home import has_secrets
from trainables.spec import LocusError

ANSWER_S = 5
"""How long a cluster may take to answer. Units: seconds."""
REQUEST_S = 60
"""How long one request may take, also the one that sends a study's files. Units: seconds."""
TRIES = 3
"""How often a study is sent at most, if other commands submit jobs at the same moment."""
AGAIN = "the same command goes on"
STUDY, HOME = "locus.study", "locus.home"
"""The names under which a job's metadata hold the id of its study and the path of its home."""


class JobError(LocusError):
    """The error of a cluster that cannot be reached, has another version of Ray, or knows no such study."""


class LostError(JobError, ConnectionError):
    """The error of a request that got no answer. A command that waits for a study sends it again."""


class RefusedError(JobError, RuntimeError):
    """The error of a request that the cluster refused. Ray's own code expects a RuntimeError there."""


class TakenError(JobError):
    """The error of a job's name that another command took at the same moment."""


class Client(JobSubmissionClient):  # type: ignore[misc]
    """Ray's client with a time limit for requests, and with errors of one sentence where Ray gives tracebacks."""

    def _do_request(self, *args: Any, **more: Any) -> requests.Response:
        try:
            answer: requests.Response = super()._do_request(*args, **{"timeout": REQUEST_S, **more})
        except requests.RequestException as error:
            why = "no answer" if isinstance(error, requests.Timeout) else type(error).__name__
            raise LostError(f"the cluster at {self._address} must answer within {REQUEST_S} s, got {why}") from None
        return answer

    def _raise_error(self, answer: requests.Response) -> None:
        if re.search(r"submission_id \S+ already exists", answer.text):
            raise TakenError("the job's name must be new, and another command took it at the same moment")
        lines = [line.strip() for line in answer.text.splitlines() if re.search(r"\w", line)]
        why = lines[-1] if lines and not lines[-1].startswith("<") else answer.reason  # a proxy answers with a page
        raise RefusedError(f"{self._address} refused (status code {answer.status_code}): {why}; {AGAIN}")


@contextmanager
def _errors_in_a_sentence(address: str) -> Iterator[None]:
    """Replaces an error of Ray's client within the block by a JobError of one sentence."""
    try:
        yield
    except (requests.RequestException, RayError, RuntimeError, OSError, ValueError, KeyError) as error:
        if isinstance(error, LocusError):
            raise
        lines = str(error).strip().splitlines() or [""]
        raise JobError(f"{address} cannot be used: {type(error).__name__}: {lines[0]}; {AGAIN}") from error


def submit(
    edition: Edition, options: RunOptions, address: str, *, say: Callable[[str], None] = lambda line: None
) -> Submission:
    """Submits a study, passes its output to `say` line by line until the plan is printed, and returns its job.

    Raises: JobError before anything is sent, also for a study that is running there; SubmissionError with the driver's
    own refusal.
    """
    if options.tracking and has_secrets(options.tracking):
        raise JobError("--tracking must hold no credentials: whoever can see the cluster's jobs could read them")
    if options.home and not PurePosixPath(options.home).is_absolute():
        raise JobError(f"--home must be an absolute path there, for a job has a folder of its own, got {options.home}")
    with _errors_in_a_sentence(address):
        client, metadata = connect(address), {STUDY: edition.id, HOME: options.home or ""}
        sent = study_sent(edition, options)
        failed = f"{edition.id} was submitted {TRIES} times by others at the same moment; try again"
        for _ in range(TRIES):
            for running, state in _submitted(client, address):
                if running.study == edition.id and state not in ENDED:
                    raise JobError(
                        f"{edition.id} is already running there as {running.job}; submit it again once it has ended, "
                        f"or stop it first (locus stop {running.at})"
                    )
            stem = "locus-" + re.sub(r"[^a-z0-9.-]", "-", edition.id)
            used = {job.submission_id for job in client.list_jobs()}  # Ray accepts each name only once
            name = next(name for number in range(1, len(used) + 2) if (name := f"{stem}-{number}") not in used)
            try:
                size = send(client, name, sent, options.home, metadata)
            except TakenError:  # by a command of the same moment, whose job is found now
                continue
            say(f"sent {size / 1e6:.1f} MB: the three packages and the study")
            submission = Submission(client, address, name, edition.id, options.home)
            try:
                for line in submission.followed():
                    say(line)
            except UnpackedError as error:
                failed = str(error)
                say(f"the files of {name} were not there yet; they are sent again")
                continue
            return submission
        raise JobError(failed)


def attach(name: str, address: str, home: str | None = None) -> Submission:
    """Returns the newest job of a study on a cluster.

    `name` is the id of the study, or its name without the edition. With `home`, only the jobs in that home count.

    Raises: JobError if there is none.
    """
    jobs = [job for job in submissions(address) if name in (job.study, job.study.partition("@")[0])]
    if not jobs:
        raise JobError(f"no study {name!r} was submitted to {address}")
    if not (jobs_of_home := of_home(jobs, home)):
        example = f"{jobs[-1].home} of {jobs[-1].job}"
        raise JobError(f"--home must be that of a job of {name!r}, such as {example}, got {home}")
    return jobs_of_home[-1]


def submissions(address: str) -> list[Submission]:
    """Returns the newest job of each study and home that was submitted to a cluster, the newest last."""
    newest: dict[tuple[str, str | None], Submission] = {}
    with _errors_in_a_sentence(address):
        client = connect(address)
        for submission, _ in _submitted(client, address):
            newest.pop((submission.study, submission.home), None)
            newest[submission.study, submission.home] = submission
    return [*newest.values()]


def of_home(jobs: list[Submission], home: str | None) -> list[Submission]:
    """Returns the jobs whose home is `home` or is not given: the cluster's own. Without `home` it returns all jobs."""
    return [job for job in jobs if home is None or PurePosixPath(job.home or home) == PurePosixPath(home)]


def connect(address: str) -> Client:
    """Returns a client that uses the token, once the cluster has answered and has the same version of Ray.

    Raises: JobError with one line for each reason why it cannot connect.
    """
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    # these loggers print on the client's screen what Ray uploads
    for name in ("ray", "ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk"):
        logging.getLogger(name).setLevel(logging.WARNING)
    if urlsplit(address).scheme not in ("http", "https"):
        raise JobError(f"--address must be the URL of a cluster's jobs, such as http://head:8265, got {address!r}")
    try:
        requests.get(f"{address.rstrip('/')}/api/version", timeout=ANSWER_S)
    except requests.RequestException:
        raise JobError(f"no Ray cluster answers at {address} ({ANSWER_S} s)") from None
    try:
        ray_session.clear_cached_token()
        client = Client(address)
        ray_there = client._do_request("GET", "/api/version").json()["ray_version"]
    except LostError:
        raise
    except (RayError, RuntimeError, ConnectionError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise JobError(f"{address} refused: {reason} (RAY_AUTH_TOKEN_PATH must name the cluster's token)") from None
    if ray_there != version("ray"):
        raise JobError(f"the cluster at {address} has ray {ray_there}, here is ray {version('ray')}; use the same")
    return client


def resources(client: Client) -> list[dict[str, float]]:
    """Returns the resources of each living node of a cluster, by Ray's names: CPU, GPU, memory. Raises: JobError."""
    answer = client._do_request("GET", "/api/v0/nodes?limit=10000")  # Ray's own limit is 100 nodes
    if answer.status_code != requests.codes.ok:
        client._raise_error(answer)
    nodes = answer.json()["data"]["result"]["result"]
    return [node["resources_total"] for node in nodes if node["state"] == "ALIVE"]


def _submitted(client: JobSubmissionClient, address: str) -> list[tuple[Submission, str]]:
    """Returns the jobs of a cluster that run studies, each with its state; the newest job is the last."""
    submitted = []
    for job in sorted(client.list_jobs(), key=lambda job: job.start_time or 0):
        if study := (job.metadata or {}).get(STUDY):
            home = job.metadata.get(HOME) or None
            submitted.append((Submission(client, address, job.submission_id, study, home), job.status.value))
    return submitted
