"""A study that was submitted to a cluster: the state of its job, its output, its end.

A connection that breaks loses and doubles nothing of the output. Ray's stream always begins at the log's first letter.
So the letters that were read are counted, and those of a new connection are left out. What a stream may lack at its end
is asked for as a whole.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import requests

from service.execution.jobs.messages import is_fact, told
from service.storage.home import Home
from trainables.spec import LocusError

QUIET_S = 60.0
"""After how long without a letter the whole log is compared: a stream whose connection broke may stand still."""


def follow_log(client: Any, job: str, whole: Callable[[], tuple[str, bool]]) -> Iterator[str]:
    """The text of a job's log in pieces, until the job has ended.

    `whole` gives the log so far, and whether the job had ended before it was read.
    """
    read, again = 0, 0.0
    while True:
        text, ended = whole()
        if len(text) > read:
            yield text[read:]
            read = len(text)
        if ended:
            return
        time.sleep(max(0.0, again - time.monotonic()))
        again = time.monotonic() + AGAIN_S
        with closing(_Stream(client, job)) as stream:
            behind = read
            while (piece := stream.next()) is not None:
                if not piece and len(whole()[0]) > read:
                    break
                new, behind = piece[behind:], max(0, behind - len(piece))
                if new:
                    yield new
                    read += len(new)


class _Stream:
    """Ray's stream of a log, read in a thread: who follows it may have an event loop already, as a notebook does."""

    def __init__(self, client: Any, job: str) -> None:
        self._client, self._job = client, job
        self._pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._read())
        threading.Thread(target=self._run, name="tail", daemon=True).start()

    def next(self) -> str | None:
        """The next piece; an empty one where none came for a while, None if the stream has ended."""
        try:
            return self._pieces.get(timeout=QUIET_S)
        except queue.Empty:
            return ""

    def close(self) -> None:
        """Ends the connection."""
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _run(self) -> None:
        try:
            # errors of many kinds mean one thing: no more comes here; whoever follows asks the cluster itself
            with suppress(Exception, asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
            with suppress(Exception):
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
            self._pieces.put(None)

    async def _read(self) -> None:
        async for piece in self._client.tail_job_logs(self._job):
            self._pieces.put(piece)


T = TypeVar("T")

POLL_S = 0.5
"""Seconds between two looks at a job."""
LOST_S = 600.0
"""How long a cluster that does not answer is asked again, while a study of hours is waited for."""
AGAIN_S = 5.0
"""Seconds between two tries, and before the next look if Ray's stream has ended early, or a proxy lets none pass."""
ENDED = ("STOPPED", "SUCCEEDED", "FAILED")
TRACEBACK = "Traceback (most recent call last)"
PACKAGE, ABSENT = "_ray_pkg_", ("FileNotFoundError", "ModuleNotFoundError", "No such file or directory")
"""Words of a job whose files are not all there: Ray's folder for them, and what Python says."""
RAYS = ("INFO job_manager.py", "Running entrypoint for job ")
"""Words in the lines that Ray prints before the driver's own."""


class SubmissionError(LocusError):
    """A study that the cluster refused, or whose result cannot be read from here."""


class UnpackedError(SubmissionError):
    """A job that did not find all of its files, because the cluster had not unpacked them yet."""


@dataclass(frozen=True)
class Submission:
    """A handle on one job of a study. `client` is Ray's job client."""

    client: Any
    address: str
    job: str
    study: str
    home: str | None

    def status(self) -> str:
        """The job's state: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED.

        A driver that another command stopped has an exit code, which Ray takes for a failure.
        """
        state = str(self._ask(lambda: self.client.get_job_status(self.job).value))
        return "STOPPED" if state == "FAILED" and self.facts().get("ended") == "stopped" else state

    def _ask(self, question: Callable[[], T]) -> T:
        """The cluster's answer. One that is lost on the way is asked for again.

        Raises: SubmissionError if none comes for ten minutes.
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

    def _text(self) -> str:
        return str(self._ask(lambda: self.client.get_job_logs(self.job)))

    def printed(self, *, follow: bool = False) -> Iterator[str]:
        """The job's lines, its facts too; with `follow` until it ends. A line that is still printed waits."""

        def whole() -> tuple[str, bool]:
            ended = str(self._ask(lambda: self.client.get_job_status(self.job).value)) in ENDED
            return self._text(), ended

        rest = ""
        for piece in follow_log(self.client, self.job, whole) if follow else [self._text()]:
            *lines, rest = (rest + piece).split("\n")
            yield from (line for line in lines if not any(word in line for word in RAYS))
        if rest and (follow or self.status() in ENDED):
            yield rest

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        """The driver's lines; with `follow` until the job ends."""
        return (line for line in self.printed(follow=follow) if not is_fact(line))

    def facts(self) -> dict[str, Any]:
        """What the job told its client so far (`service.execution.jobs.messages`)."""
        return told(self._text().split("\n"))

    def stop(self) -> None:
        """Asks each run to end at its next report; submitting again continues. Returns when the job has ended."""
        self.ask_to_stop()
        self.wait_until_ended()

    def ask_to_stop(self) -> None:
        """Asks each run to end at its next report, and returns. Ray kills a job that does not end in two minutes."""
        self._ask(lambda: self.client.stop_job(self.job))

    def wait_until_ended(self, at_most_s: float = float("inf")) -> str:
        """Waits for the end of the job, and returns its state then, or after a time. Units: seconds."""
        until = time.monotonic() + at_most_s
        while (state := self.status()) not in ENDED and time.monotonic() < until:
            time.sleep(POLL_S)
        return state

    def wait_for_end(self) -> dict[str, Any]:
        """Waits for the end of the job; its facts. Raises: SubmissionError for a job that failed."""
        state, facts = self.wait_until_ended(), self.facts()
        if state == "FAILED" and facts.get("ended") != "finished":  # where it finished, some runs may have failed
            raise SubmissionError(f"{self.job} failed: {self.trouble()}")
        return facts

    def visible_home(self, facts: dict[str, Any]) -> Home | None:
        """The home of the job, where this machine sees it: a folder of the same path and of the same id."""
        where = facts.get("home") or self.home
        if where is None or facts.get("home_id") is None:
            return None
        home = Home.find(where)
        return home if home.id == facts["home_id"] else None

    def followed(self) -> Iterator[str]:
        """The driver's lines until it has told the address of its parent run, which it does once its plan is printed.

        Raises: SubmissionError with the refusal, where the driver refused, or with why there is no plan: a traceback is
        told by its last line. UnpackedError if its files were not there.
        """
        held: list[str] = []
        for line in self.printed(follow=True):
            facts = told([line])
            if held or line.startswith(TRACEBACK):
                held.append(line)
                continue
            if "refused" in facts:
                raise SubmissionError(facts["refused"])
            if "mlflow" in facts:
                return
            if not is_fact(line):
                yield line
        why = self.trouble()
        unpacked = PACKAGE in "".join([*held, why]) and any(word in "".join([*held, why]) for word in ABSENT)
        kind = UnpackedError if unpacked else SubmissionError
        raise kind(f"{self.job} ended before its plan was made: {why}; the same command tries again")

    def trouble(self) -> str:
        """Why a job failed: the driver's last line, or Ray's message where the driver printed nothing."""
        message = str(self._ask(lambda: self.client.get_job_info(self.job).message) or "").strip()
        return _last(self.printed()) or " ".join(message.split())

    def describe(self) -> str:
        """State, last line, and what to type next."""
        at = f"{self.study} --address {self.address}"
        lines = [*self.printed()]
        mlflow = told(lines).get("mlflow")
        said = [
            f"{self.study}  {self.status()}  job {self.job}",
            f"last line  {_last(lines) or 'no output yet'}",
            *([f"MLflow     {mlflow}"] if mlflow else []),
            f"watch      locus status {at}",
            f"           locus logs {at} -f",
            f"stop       locus stop {at}",
        ]
        return "\n".join(said)

    def __repr__(self) -> str:
        return self.describe()


def _last(lines: Iterator[str] | list[str]) -> str:
    """The last line for people."""
    return next((line for line in reversed([*lines]) if line.strip() and not is_fact(line)), "")


def _is_lost(error: Exception) -> bool:
    """Whether a cluster did not answer, or a proxy before it said that it is not there."""
    if isinstance(error, requests.RequestException | ConnectionError):
        return True
    return any(f"status code {code}" in str(error) for code in (502, 503, 504))
