"""A study that was submitted to a cluster: the state of its job, its output, its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import requests

from service.storage.home import Home
from trainables.spec import LocusError

T = TypeVar("T")

POLL_S = 0.5
"""Seconds between two looks at a job."""
LOST_S = 600.0
"""How long a cluster that does not answer is asked again, while a study of hours is waited for."""
AGAIN_S = 5.0
"""Seconds between two tries."""
ENDED = ("STOPPED", "SUCCEEDED", "FAILED")
PLAN, MLFLOW, REFUSED = "plan: ", "MLflow: ", "locus: "
"""How the lines begin in which a job prints its plan, the address of its parent run, and a refusal."""
RAYS = ("INFO job_manager.py", "Running entrypoint for job ")
"""Words in the lines that Ray prints before the driver's own."""


class SubmissionError(LocusError):
    """A study that the cluster refused, or whose result cannot be read from here."""


@dataclass(frozen=True)
class Submission:
    """A handle on one job of a study. `client` is Ray's job client."""

    client: Any
    address: str
    job: str
    study: str
    home: str | None

    def status(self) -> str:
        """The job's state: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED."""
        return str(self._ask(lambda: self.client.get_job_status(self.job).value))

    def _ask(self, question: Callable[[], T]) -> T:
        """The cluster's answer. One that is lost on the way is asked for again.

        Raises: SubmissionError where none comes for ten minutes.
        """
        until = time.monotonic() + LOST_S
        while True:
            try:
                return question()
            except (requests.RequestException, ConnectionError, RuntimeError) as error:
                if not _is_lost(error):
                    raise
                if time.monotonic() > until:
                    raise SubmissionError(
                        f"{self.address} has not answered for {LOST_S / 60:g} minutes; the study may still run there"
                    ) from None
            time.sleep(AGAIN_S)

    def lines(self, *, ended: bool = True) -> list[str]:
        """What the driver has printed so far, without the lines that Ray prints before.

        `ended`: False leaves out a last line that is still being printed.
        """
        text = str(self._ask(lambda: self.client.get_job_logs(self.job)))
        printed = (text if ended else text.rpartition("\n")[0]).splitlines()
        return [line for line in printed if not any(word in line for word in RAYS)]

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        """The driver's lines; with `follow` until the job ends."""
        seen = 0
        while True:
            ended = self.status() in ENDED
            lines = self.lines(ended=ended)
            yield from lines[seen:]
            seen = len(lines)
            if ended or not follow:
                return
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Asks each run to end at its next report; submitting again continues. Returns when the job has ended."""
        self._ask(lambda: self.client.stop_job(self.job))
        while self.status() not in ENDED:
            time.sleep(POLL_S)

    def wait_for_end(self) -> tuple[Home, str]:
        """Waits for the end of the job; the home and the id under which the result can be read from here.

        Raises: SubmissionError for a job that failed, or a home that this machine does not see.
        """
        while self.status() not in ENDED:
            time.sleep(POLL_S)
        if self.status() == "FAILED":
            raise SubmissionError(f"{self.job} failed: {self.trouble()}")
        id = self.edition()
        if self.home is None or id not in Home.find(self.home).ids():
            where = self.home or "the home of that cluster"
            raise SubmissionError(f"{id} ended, but {where} is not visible here; its report: {self.mlflow()}")
        return Home.find(self.home), id

    def edition(self) -> str:
        """The study's id on the cluster, where it may have a number for a fresh start; the plan names it."""
        found = next((line for line in self.lines() if line.startswith(PLAN)), "")
        return found.removeprefix(PLAN).partition(": ")[0] or self.study

    def followed(self) -> Iterator[str]:
        """The driver's lines until its plan is there, and the one after it: its parent run where MLflow has a server.

        Raises: SubmissionError with the refusal, where the driver refused, or with why there is no plan.
        """
        planned = False
        for line in self.logs(follow=True):
            if line.startswith(REFUSED):
                raise SubmissionError(line.removeprefix(REFUSED))
            yield line
            if planned:
                return
            planned = line.startswith(PLAN)
        if not planned:
            raise SubmissionError(f"{self.job} ended before its plan was made: {self.trouble()}")

    def last(self) -> str:
        """The driver's last line."""
        return next((line for line in reversed(self.lines()) if line.strip()), "no output yet")

    def trouble(self) -> str:
        """Why a job failed: the driver's last line, or Ray's message where the driver printed nothing."""
        printed = self.lines()
        message = str(self._ask(lambda: self.client.get_job_info(self.job).message) or "").strip()
        return self.last() if printed else " ".join(message.split())

    def mlflow(self) -> str:
        """The address of the study's parent run in MLflow; empty where the cluster has no server."""
        found = (line for line in self.lines() if line.startswith(MLFLOW))
        return next(found, "").removeprefix(MLFLOW)

    def describe(self) -> str:
        """State, last line, and what to type next."""
        at = f"{self.study} --address {self.address}"
        lines = [
            f"{self.study}  {self.status()}  job {self.job}",
            f"last line  {self.last()}",
            *([f"MLflow     {self.mlflow()}"] if self.mlflow() else []),
            f"watch      locus status {at}",
            f"           locus logs {at} -f",
            f"stop       locus stop {at}",
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.describe()


def _is_lost(error: Exception) -> bool:
    """Whether a cluster did not answer, or a proxy before it said that it is not there."""
    if isinstance(error, requests.RequestException | ConnectionError):
        return True
    return any(f"status code {code}" in str(error) for code in (502, 503, 504))
