"""Submits studies to a Ray cluster: the only door to Ray Jobs.

`job_contents` holds what a job carries. Its metadata hold no secret, because everyone with the token can read them.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import requests
from ray.exceptions import RayError
from ray.job_submission import JobSubmissionClient

from search_spaces.study import Edition
from service.execution import ray_token as token
from service.execution.job_contents import ENTRYPOINT, job_environment, write_contents
from service.execution.submission import ENDED, Submission
from service.planning.run_options import RunOptions
from trainables.spec import LocusError

ANSWER_S = 5
"""How long a cluster may take to answer."""
STUDY, HOME = "locus.study", "locus.home"


class JobError(LocusError):
    """A cluster that cannot be reached, has other versions, or knows no such study."""


def submit(
    edition: Edition,
    options: RunOptions,
    address: str,
    *,
    fresh: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Submission:
    """Submits a study and prints its output until the plan is there. A study that already runs there is not sent again.

    Raises: JobError before anything is sent; SubmissionError with the driver's own refusal.
    """
    if options.tracking and urlsplit(options.tracking).username:
        raise JobError("--tracking must hold no credentials: whoever can see the cluster's jobs could read them")
    client = _client(address)
    running = _find(client, edition.id, running=True)
    if running is not None:
        say(f"{edition.id} is already running there as {running}")
        return Submission(client, address, running, edition.id, options.home)
    with tempfile.TemporaryDirectory(prefix="locus-job-") as folder:
        write_contents(Path(folder), edition, options, fresh=fresh)
        job = client.submit_job(
            entrypoint=ENTRYPOINT,
            submission_id=_name(client, edition.id),
            runtime_env={"working_dir": folder, "env_vars": job_environment(options)},
            metadata={STUDY: edition.id, HOME: options.home or ""},
        )
    submission = Submission(client, address, job, edition.id, options.home)
    for line in submission.followed():
        say(line)
    return submission


def attach(name: str, address: str) -> Submission:
    """The newest job of a study on a cluster, by its id or bare name. Raises: JobError where there is none."""
    client = _client(address)
    job = _find(client, name)
    if job is None:
        raise JobError(f"no study {name!r} was submitted to {address}")
    metadata = client.get_job_info(job).metadata
    return Submission(client, address, job, metadata[STUDY], metadata.get(HOME) or None)


def _client(address: str) -> JobSubmissionClient:
    """A client with the token, once the cluster has answered and has this Ray.

    Raises: JobError with one line for each reason why it cannot connect.
    """
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    logging.getLogger("ray").setLevel(logging.WARNING)
    if urlsplit(address).scheme not in ("http", "https"):
        raise JobError(f"--address must be the URL of a cluster's jobs, such as http://head:8265, got {address!r}")
    try:
        requests.get(f"{address.rstrip('/')}/api/version", timeout=ANSWER_S)
    except requests.RequestException:
        raise JobError(f"no Ray cluster answers at {address} ({ANSWER_S} s)") from None
    try:
        token.clear_cached_token()
        client = JobSubmissionClient(address)
        there = client._do_request("GET", "/api/version").json()["ray_version"]
    except (RayError, RuntimeError, ConnectionError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise JobError(f"{address} refused: {reason} (RAY_AUTH_TOKEN_PATH must name the cluster's token)") from None
    if there != version("ray"):
        raise JobError(f"the cluster at {address} has ray {there}, here is ray {version('ray')}; use the same")
    return client


def _find(client: JobSubmissionClient, name: str, *, running: bool = False) -> str | None:
    """The newest job of a study's id, or of any edition of a bare name."""
    jobs = [job for job in client.list_jobs() if (job.metadata or {}).get(STUDY)]
    mine = [job for job in jobs if name in (job.metadata[STUDY], job.metadata[STUDY].partition("@")[0])]
    mine = [job for job in mine if not (running and job.status.value in ENDED)]
    newest = max(mine, key=lambda job: job.start_time or 0, default=None)
    return newest.submission_id if newest else None


def _name(client: JobSubmissionClient, id: str) -> str:
    """A submission id that was never used: Ray accepts each one only once."""
    stem = "locus-" + re.sub(r"[^a-z0-9.-]", "-", id)
    used = {job.submission_id for job in client.list_jobs()}
    return next(name for number in range(1, len(used) + 2) if (name := f"{stem}-{number}") not in used)
