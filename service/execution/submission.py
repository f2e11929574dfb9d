"""Sends the job of a study to a cluster, follows its state and its output, and fetches the result of the study.

Ray's stream of a log may stand still without a word when a connection breaks. So the whole log is asked for about once
a second, and what is new is passed on: no line is lost, and none comes twice.

A job's entrypoint is one fixed string, so a shell never runs what a user typed. Its environment holds no secret,
because everyone with the token can read it.

A job tells its client facts: lines of JSON with a fixed beginning, among the lines for people. Ray takes no metadata
after a job was sent, and these facts are known later: the study's id and home, the address of its MLflow run, how it
ended, a refusal, and the archive of a result. The archive holds study.json, the journal, the home's id, and each run's
answer with the files of its probes. Files of 3,000 runs repeat the same words, so they are compressed as one stream.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import lzma
import os
import platform
import shlex
import shutil
import sys
import tarfile
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import requests

from search_spaces.study import Edition
from service.planning.run_options import RunOptions
from service.storage.facts import Ended
from service.storage.home import Home
from service.storage.journal import read_on
from service.storage.outcomes import commit
from trainables.kept import cache_folder
from trainables.polling import poll
from trainables.spec import LocusError

ENTRYPOINT = "python -m service job job.json"
PACKAGES = ("service", "search_spaces", "trainables")
STOP_S = 120
"""How long the runs of a stopped job may take to end their epochs. Units: seconds."""
ANSWER_S = 300.0
"""How long the job may take that packs a result: a busy head starts a job in half a minute. Units: seconds."""


def study_sent(edition: Edition, options: RunOptions) -> dict[str, Any]:
    """Returns the content of job.json, the file that tells a job which study to run and how."""
    return {"edition": edition.plain(), "options": options.plain()}


def send(client: Any, job: str, sent: Mapping[str, Any], home: str | None, metadata: Mapping[str, str]) -> int:
    """Sends a job to a cluster, and returns the size of its files in bytes.

    Args:
        client: Ray's job client.
        job: A name that no job of the cluster has had.
        sent: The content of job.json.
        home: The path of the home on the cluster; None is the cluster's own.
        metadata: Names and values that the cluster shows with the job.
    """
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory(prefix="locus-job-") as draft:
        folder = Path(draft)
        for package in PACKAGES:
            shutil.copytree(root / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.md"))
        content = json.dumps({**sent, "python": platform.python_version()})
        (folder / "job.json").write_text(content, encoding="utf-8")
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        client.submit_job(
            entrypoint=ENTRYPOINT,
            submission_id=job,
            runtime_env={"working_dir": draft, "env_vars": job_environment(home)},
            metadata=dict(metadata),
        )
    return size


def job_environment(home: str | None) -> dict[str, Any]:
    """Returns the job's environment variables. `home` is the path of its home; None is the cluster's own."""
    return {
        "RAY_JOB_STOP_SIGNAL": "SIGTERM",  # a job's shell ignores SIGINT where a script started Ray with `&`
        "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_S),
        "PYTHONUNBUFFERED": "1",
        "LOCUS_COMMIT": commit(),
        **({"LOCUS_HOME": home} if home else {}),
    }


MARK = "locus-fact "
"""The first letters of a line with facts."""


def tell(**facts: Any) -> None:
    """Prints facts as one line. It writes once, so that no other thread writes into this line."""
    sys.stdout.write(f"{MARK}{json.dumps(facts)}\n")
    sys.stdout.flush()


def facts_in(lines: Iterable[str]) -> dict[str, Any]:
    """Returns the facts among a job's lines, by name; a later fact replaces an earlier one of the same name.

    A line that was cut is ignored.
    """
    facts: dict[str, Any] = {}
    for line in (line for line in lines if line.startswith(MARK)):
        try:
            facts |= json.loads(line.removeprefix(MARK))
        except ValueError:
            continue
    return facts


T = TypeVar("T")

POLL_S = 0.5
"""The time between two questions for the state of a job. Units: seconds."""
LOOK_S = 1.0
SHARE = 10.0
"""The time between two looks at the log of a job that is followed: in seconds, and in times of the look itself."""
LOST_S = 600.0
"""How long a cluster that does not answer is asked again, because a study may take hours. Units: seconds."""
AGAIN_S = 5.0
"""The time between two tries to reach the cluster, or to open Ray's stream of a log again. Units: seconds."""
ENDED = ("STOPPED", "SUCCEEDED", "FAILED")
RAYS = ("INFO job_manager.py", "Running entrypoint for job ")
"""Words in the lines that Ray prints before the driver's own lines."""


class SubmissionError(LocusError):
    """The error of a study that the cluster refused, or whose result cannot be read from here."""


class UnpackedError(SubmissionError):
    """The error of a job that did not find all of its files, because the cluster had not unpacked them yet."""


@dataclass(frozen=True)
class Submission:
    """A handle on one job of a study, a process on the cluster that runs it.

    `client` is Ray's job client, `address` the URL of the cluster, `job` the name of the job, and `study` the id of the
    study. `home` is the path of the home on the cluster; None is the cluster's own.
    """

    client: Any
    address: str
    job: str
    study: str
    home: str | None

    def status(self) -> str:
        """Returns the job's state: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED."""
        # a driver that another command stopped has an exit code, which Ray takes for a failure
        state = str(self._ask(lambda: self.client.get_job_status(self.job).value))
        return "STOPPED" if state == "FAILED" and self.facts().get("ended") == "stopped" else state

    def _ask(self, question: Callable[[], T]) -> T:
        """Returns the cluster's answer, and asks again where it is lost. Raises: SubmissionError after ten minutes."""
        until = time.monotonic() + LOST_S
        while True:
            try:
                return question()
            except (requests.RequestException, ConnectionError, RuntimeError) as error:
                away = any(f"status code {code}" in str(error) for code in (502, 503, 504))  # a proxy says so
                if not away and not isinstance(error, requests.RequestException | ConnectionError):
                    raise
                if time.monotonic() > until:
                    raise SubmissionError(
                        f"{self.address} has not answered for {LOST_S / 60:g} minutes; the study may still run there"
                    ) from None
            time.sleep(AGAIN_S)

    def _text(self) -> str:
        return str(self._ask(lambda: self.client.get_job_logs(self.job)))

    def printed(self, *, follow: bool = False) -> Iterator[str]:
        """Yields the lines that the job has printed, also those of facts; with `follow`, all lines until it ends."""
        read, rest, ended = 0, "", False
        while True:
            begun = time.monotonic()
            ended = follow and str(self._ask(lambda: self.client.get_job_status(self.job).value)) in ENDED
            text = self._text()  # after the state, so that the log of a job that has ended is whole
            *lines, rest = (rest + text[read:]).split("\n")
            read, pause = len(text), max(LOOK_S, SHARE * (time.monotonic() - begun))
            yield from (line for line in lines if not any(word in line for word in RAYS))
            if ended or not follow:
                break
            time.sleep(pause)
        if rest and (ended or self.status() in ENDED):
            yield rest

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        return (line for line in self.printed(follow=follow) if not line.startswith(MARK))

    def facts(self) -> dict[str, Any]:
        return facts_in(self._text().split("\n"))

    def stop(self) -> None:
        """Asks each run to end at its next report, and waits for the end of the job. Ray kills it after two minutes."""
        self._ask(lambda: self.client.stop_job(self.job))
        self.wait_until_ended()

    def wait_until_ended(self, at_most_s: float = float("inf")) -> str:
        """Waits for the end of the job, for `at_most_s` seconds at most, and returns its state then."""
        poll(lambda: self.status() in ENDED, POLL_S, at_most_s)
        return self.status()

    def wait_for_end(self) -> None:
        """Waits for the end of the job. Raises: SubmissionError for a job that failed."""
        # a study that finished has a job that failed where some of its runs failed
        if self.wait_until_ended() == "FAILED" and self.facts().get("ended") != "finished":
            raise SubmissionError(f"{self.job} failed: {self.trouble()}")

    def archive(self, study: str, home: str | None) -> bytes:
        """Returns the archive of a study's result, which a small job packs on the cluster.

        `home` is the path of the study's home there; None is the cluster's own.
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
        """Returns the home of the job if this machine has it at the same path, with the same id; else None."""
        root = facts.get("home") or self.home
        if root is None or facts.get("home_id") is None:
            return None
        home = Home.find(root)
        return home if home.id == facts["home_id"] else None

    def followed(self) -> Iterator[str]:
        """Yields the lines of the driver until its plan is printed, when it tells the address of its MLflow run.

        Raises: SubmissionError with the refusal, if the driver refused, or with the reason why there is no plan (of a
        traceback, the last line). UnpackedError if the job's files were not there.
        """
        trace: list[str] = []
        for line in self.printed(follow=True):
            facts = facts_in([line])
            if trace or line.startswith("Traceback (most recent call last)"):
                trace.append(line)
                continue
            if "refused" in facts:
                raise SubmissionError(facts["refused"])
            if "mlflow" in facts:
                return
            if not line.startswith(MARK):
                yield line
        why = self.trouble()
        text = "".join([*trace, why])
        # words of a job whose files are not all there: Ray's folder for them, and what Python says
        absent = ("FileNotFoundError", "ModuleNotFoundError", "No such file or directory")
        kind = UnpackedError if "_ray_pkg_" in text and any(word in text for word in absent) else SubmissionError
        raise kind(f"{self.job} ended before its plan was made: {why}; the same command tries again")

    def trouble(self) -> str:
        """Returns why a job failed: the driver's last line, or Ray's message where the driver printed nothing."""
        message = str(self._ask(lambda: self.client.get_job_info(self.job).message) or "").strip()
        return _last(self.printed()) or " ".join(message.split())

    @property
    def at(self) -> str:
        """The words of a command line that find this study on its cluster."""
        home = f" --home {shlex.quote(self.home)}" if self.home else ""
        return f"{self.study} --address {self.address}{home}"

    def describe(self) -> str:
        """Returns in words the state of the job, its last line, and which commands can be typed next."""
        lines, state = [*self.printed()], self.status()
        mlflow = facts_in(lines).get("mlflow")
        parts = [
            f"{self.study}  {state}  job {self.job}",
            f"last line  {_last(lines) or 'no output yet'}",
            *([f"MLflow     {mlflow}"] if mlflow else []),
            f"watch      locus status {self.at}",
            f"           locus logs {self.at} -f",
            f"stop       locus stop {self.at}" if state not in ENDED else f"report     locus report {self.at}",
        ]
        return "\n".join(parts)

    __repr__ = describe


def _last(lines: Iterator[str] | list[str]) -> str:
    """Returns the last line that is for people and not blank; an empty text without one."""
    return next((line for line in reversed([*lines]) if line.strip() and not line.startswith(MARK)), "")


MOST = 4 * 2**30
"""The greatest size that an unpacked archive may have; 900 runs of eight epochs have 10 MB. Units: bytes."""
PIECE = 2**20
"""The size of the pieces in which an archive is unpacked to find its size. Units: bytes."""


class ArchiveError(LocusError):
    """The error of an archive that is not as it was packed."""


def pack(home: Home, id: str) -> bytes:
    """Returns the archive of a study, with the answers that its journal lists now. A driver may run meanwhile."""
    folder = home.study(id)
    facts, end = read_on(folder.journal)
    files = [folder.study, home.root / "id"]
    for key, code in sorted({(fact.run, fact.code) for fact in facts if isinstance(fact, Ended)}):
        answer_files = sorted((home.outcomes / key).glob(f"{code}.*"))
        files += [path for path in answer_files if path.suffix in (".json", ".npz")]  # the answer, what probes found

    def without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz", preset=1) as archive:  # 6 takes ten times as long for 1/4 less
        for file in filter(Path.is_file, files):
            archive.add(file, file.relative_to(home.root).as_posix(), recursive=False, filter=without_owner)
        if folder.journal.exists():  # it may have grown since the answers were listed
            name = folder.journal.relative_to(home.root).as_posix()
            member = without_owner(archive.gettarinfo(folder.journal, name))
            with folder.journal.open("rb") as journal:
                lines = journal.read(end.offset)
            member.size = len(lines)
            archive.addfile(member, io.BytesIO(lines))
    return content.getvalue()


def fetched(content: bytes, origin: str) -> Home:
    """Unpacks an archive into a home on this machine, and returns it. Studies of one home there share one home here.

    `origin` says in words where the weights stayed.
    Raises: ArchiveError for an archive that is damaged, or holds anything but files within its folder.
    """
    cache = cache_folder()
    if cache is None:
        raise ArchiveError("XDG_CACHE_HOME must name a folder for fetched results, for this user has no home folder")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".draft-", dir=cache) as draft:
        _unpack(content, Path(draft))
        id = Path(draft) / "id"
        home = Home(cache / hashlib.sha256(id.read_bytes() if id.is_file() else b"").hexdigest()[:16])
        home.root.mkdir(exist_ok=True)
        home.fetched.write_text(origin, encoding="utf-8")
        files = [path for path in Path(draft).rglob("*") if path.is_file()]
        for path in sorted(files, key=lambda path: path.suffix == ".jsonl"):  # a journal comes after its answers
            target = home.root / path.relative_to(draft)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
    return home


def _unpack(content: bytes, folder: Path) -> None:
    """Unpacks an archive into a folder.

    Raises: ArchiveError, before a file is written, for an archive that is cut or too large; before a file leaves the
    folder or is no plain file.
    """

    def plain_file(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
        if not member.isfile() or member.issparse():  # a sparse file says any size of itself
            raise tarfile.SpecialFileError(member)
        return tarfile.data_filter(member, folder)

    size = 0
    try:
        with lzma.open(io.BytesIO(content)) as stream:  # only its end shows whether it was cut, and how large it is
            while piece := stream.read(PIECE):
                size += len(piece)
                if size > MOST:
                    limit = f"{MOST / 2**30:.3g} GiB"
                    raise ArchiveError(f"the archive must hold at most {limit} when unpacked, got more")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:xz") as archive:
            archive.extractall(folder, filter=plain_file)
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError) as error:
        raise ArchiveError(f"the archive must hold the files of a study, got {type(error).__name__}: {error}") from None
