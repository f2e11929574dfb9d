"""A study that is submitted to a cluster: what its job carries, its state, output and end, and its result.

A connection that breaks loses and doubles nothing of the output. Ray's stream always begins at the log's first letter.
So the letters that were read are counted, and those of a new connection are left out. What a stream may lack at its end
is asked for as a whole.

A job's entrypoint is one fixed string, so a shell never runs what a user typed. Its environment holds no secret,
because everyone with the token can read it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import platform
import queue
import shlex
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import requests

from search_spaces.study import Edition
from service.execution.job_messages import is_fact, told
from service.planning.run_options import RunOptions
from service.storage.home import Home
from service.storage.outcomes import commit
from trainables.polling import poll
from trainables.spec import LocusError

QUIET_S = 60.0
"""After how long without a letter the whole log is compared: a stream whose connection broke may stand still."""

ENTRYPOINT = "python -m service job job.json"
PACKAGES = ("service", "search_spaces", "trainables")
STOP_S = 120
"""How long a stopped job may take to end its epochs."""
ANSWER_S = 300.0
"""How long the archive of a result may take: a busy head starts a job in half a minute."""


def study_sent(edition: Edition, options: RunOptions) -> dict[str, Any]:
    """Returns the job.json of a study."""
    return {"edition": edition.plain(), "options": options.plain()}


def write_contents(folder: Path, sent: Mapping[str, Any]) -> int:
    """Writes what the job carries into a folder; its size, which is what travels. Units: bytes."""
    root = Path(__file__).resolve().parents[2]
    for package in PACKAGES:
        shutil.copytree(root / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.md"))
    (folder / "job.json").write_text(json.dumps({**sent, "python": platform.python_version()}), encoding="utf-8")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def send(client: Any, job: str, sent: Mapping[str, Any], home: str | None, metadata: Mapping[str, str]) -> int:
    """Sends a job by Ray's client, under a name that was never used; its size, as `write_contents` has it."""
    with tempfile.TemporaryDirectory(prefix="locus-job-") as folder:
        size = write_contents(Path(folder), sent)
        client.submit_job(
            entrypoint=ENTRYPOINT,
            submission_id=job,
            runtime_env={"working_dir": folder, "env_vars": job_environment(home)},
            metadata=dict(metadata),
        )
    return size


def job_environment(home: str | None) -> dict[str, Any]:
    """Returns the job's environment variables. `home`: the driver's home there, where one is given."""
    return {
        "RAY_JOB_STOP_SIGNAL": "SIGTERM",  # a job's shell ignores SIGINT where a script started Ray with `&`
        "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_S),
        "PYTHONUNBUFFERED": "1",
        "LOCUS_COMMIT": commit(),
        **({"LOCUS_HOME": home} if home else {}),
    }


def follow_log(client: Any, job: str, whole: Callable[[], tuple[str, bool]]) -> Iterator[str]:
    """Yields the text of a job's log in pieces, until the job has ended.

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
                if not piece:
                    text, ended = whole()
                    if ended or len(text) > read:
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
        """Returns the next piece; an empty one where none came for a while, None if the stream has ended."""
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
        """Returns the job's state: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED.

        A driver that another command stopped has an exit code, which Ray takes for a failure.
        """
        state = str(self._ask(lambda: self.client.get_job_status(self.job).value))
        return "STOPPED" if state == "FAILED" and self.facts().get("ended") == "stopped" else state

    def _ask(self, question: Callable[[], T]) -> T:
        """Returns the cluster's answer. One that is lost on the way is asked for again.

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
        """Yields the job's lines, its facts too; with `follow` until it ends. A line that is still printed waits."""

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
        """Returns the driver's lines; with `follow` until the job ends."""
        return (line for line in self.printed(follow=follow) if not is_fact(line))

    def facts(self) -> dict[str, Any]:
        """Returns what the job told its client so far (`service.execution.job_messages`)."""
        return told(self._text().split("\n"))

    def stop(self) -> None:
        """Asks each run to end at its next report; submitting again continues. Returns when the job has ended.

        Ray kills a job that does not end in two minutes.
        """
        self._ask(lambda: self.client.stop_job(self.job))
        self.wait_until_ended()

    def wait_until_ended(self, at_most_s: float = float("inf")) -> str:
        """Waits for the end of the job, and returns its state then, or after a time. Units: seconds."""
        poll(lambda: self.status() in ENDED, POLL_S, at_most_s)
        return self.status()

    def wait_for_end(self) -> None:
        """Waits for the end of the job. Raises: SubmissionError for a job that failed."""
        # where it finished, some runs may have failed
        if self.wait_until_ended() == "FAILED" and self.facts().get("ended") != "finished":
            raise SubmissionError(f"{self.job} failed: {self.trouble()}")

    def archive(self, study: str, home: str | None) -> bytes:
        """Returns the archive of a study's result, which a small job packs in a home there; None is the cluster's.

        Raises: SubmissionError with the refusal, or where there is no answer. Cost: 5-10 s.
        """
        name = f"locus-result-{uuid.uuid4().hex[:12]}"  # Ray takes each name once, also after its job was deleted
        send(self.client, name, {"result_of": study}, home, {})
        job = Submission(self.client, self.address, name, study, home)
        if (state := job.wait_until_ended(ANSWER_S)) not in ENDED:
            raise SubmissionError(f"{self.address} must answer within {ANSWER_S:g} s, got a job that is {state}")
        facts = job.facts()
        if "archive" not in facts:
            raise SubmissionError(facts.get("refused") or f"{name} ended without an answer: {job.trouble()}")
        return base64.b64decode(facts["archive"])

    def visible_home(self, facts: dict[str, Any]) -> Home | None:
        """Returns the home of the job, where this machine sees it: a folder of the same path and of the same id."""
        where = facts.get("home") or self.home
        if where is None or facts.get("home_id") is None:
            return None
        home = Home.find(where)
        return home if home.id == facts["home_id"] else None

    def followed(self) -> Iterator[str]:
        """Yields the driver's lines up to the address of its parent run, which it tells once its plan is printed.

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
        """Returns why a job failed: the driver's last line, or Ray's message where the driver printed nothing."""
        message = str(self._ask(lambda: self.client.get_job_info(self.job).message) or "").strip()
        return _last(self.printed()) or " ".join(message.split())

    @property
    def at(self) -> str:
        """What a command needs to find this study on its cluster."""
        home = f" --home {shlex.quote(self.home)}" if self.home else ""
        return f"{self.study} --address {self.address}{home}"

    def describe(self) -> str:
        """Returns the state, the last line, and what to type next."""
        lines, state = [*self.printed()], self.status()
        runs = state not in ENDED
        mlflow = told(lines).get("mlflow")
        parts = [
            f"{self.study}  {state}  job {self.job}",
            f"last line  {_last(lines) or 'no output yet'}",
            *([f"MLflow     {mlflow}"] if mlflow else []),
            f"watch      locus status {self.at}",
            f"           locus logs {self.at} -f",
            f"stop       locus stop {self.at}" if runs else f"report     locus report {self.at}",
        ]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return self.describe()


def _last(lines: Iterator[str] | list[str]) -> str:
    """Returns the last line for people."""
    return next((line for line in reversed([*lines]) if line.strip() and not is_fact(line)), "")


def _is_lost(error: Exception) -> bool:
    """Returns whether a cluster did not answer, or a proxy before it said that it is not there."""
    if isinstance(error, requests.RequestException | ConnectionError):
        return True
    return any(f"status code {code}" in str(error) for code in (502, 503, 504))
