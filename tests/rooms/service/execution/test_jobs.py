"""What a job carries, and what is refused before anything is sent."""

import json
import threading
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from search_spaces.library import find
from search_spaces.study import Edition
from service.execution import jobs
from service.execution.jobs import JobError
from service.execution.submission import PACKAGES, job_environment, send, study_sent
from service.planning.run_options import RunOptions
from trainables.spec import LocusError

CLOSED = "http://127.0.0.1:9"
VERSIONS = {"ray_version": version("ray"), "version": "4"}


@pytest.fixture
def edition():
    return find("fourier-gamma").at("smoke", set={"data.train_size": 130})


@contextmanager
def server(status: int = 200, *, silent: Callable[[str], bool] = lambda path: False, **content):
    """A server that gives one answer to everything, and none to a path for which `silent` holds."""
    over = threading.Event()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            if silent(self.path):
                over.wait()
                return
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_):
            return

    here = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=here.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{here.server_port}"
    finally:
        over.set()
        here.shutdown()
        here.server_close()


@pytest.mark.parametrize(
    ("options", "address", "refusal"),
    [
        ({}, CLOSED, rf"no Ray cluster answers at {CLOSED} \(5 s\)"),
        *(({}, address, "--address must be the URL") for address in ("head:8265", "ray://head:10001", "auto", "")),
        # a relative home would lie in the job's own folder, and go with Ray's session
        ({"home": "here/locus"}, CLOSED, "--home must be an absolute path there.*got here/locus"),
        ({"tracking": "https://me:secret@mlflow"}, CLOSED, "^--tracking must hold no credentials: [^@]*$"),
        ({"tracking": "https://token@mlflow:443/x"}, CLOSED, "^--tracking must hold no credentials: [^@]*$"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(edition, options, address, refusal):
    with pytest.raises(JobError, match=refusal):
        jobs.submit(edition, RunOptions(**options), address)


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        ({"silent": lambda path: True}, r"^no Ray cluster answers at http://127.0.0.1:\d+ \(0\.2 s\)$"),
        # it tells its version and is silent from then on
        ({"silent": lambda path: not path.endswith("/api/version"), **VERSIONS},
         r"^the cluster at http://127.0.0.1:\d+ must answer within 1 s, got no answer$"),
        ({"ray_version": "2.41.0", "version": "4"}, r"has ray 2\.41\.0, here is ray 2\.60\.\d; use the same$"),
        ({"status": 401}, r"^[^\n]*RAY_AUTH_TOKEN_PATH[^\n]*$"),
    ],
    ids=["says nothing", "stands still", "another Ray", "no token"],
)  # fmt: skip
def test_a_head_that_cannot_be_used_is_given_up_in_a_sentence(monkeypatch, answer, refusal):
    monkeypatch.setattr(jobs, "ANSWER_S", 0.2)
    monkeypatch.setattr(jobs, "REQUEST_S", 1)
    with server(**answer) as address, pytest.raises(JobError, match=refusal):
        jobs.attach("fourier-gamma", address)


def test_a_job_carries_the_packages_and_the_study_and_nothing_else(edition, monkeypatch):
    """Nor a secret, because everyone with the token can read a job's environment."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    options = RunOptions(home="/shared/locus", max_concurrent=2)
    sizes: list[int] = []

    def submit_job(*, runtime_env, **more) -> None:
        folder = Path(runtime_env["working_dir"])
        assert sorted(path.name for path in folder.iterdir()) == sorted([*PACKAGES, "job.json"])
        content = json.loads((folder / "job.json").read_text())
        assert Edition.read(content["edition"]) == edition
        assert RunOptions.read(content["options"]) == options
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert {path.suffix for path in files} <= {".py", ".json", ".css", ".j2", ".txt", ".typed"}
        sizes.append(sum(path.stat().st_size for path in files))
        assert runtime_env["env_vars"] == job_environment("/shared/locus")
        assert "secret" not in str((runtime_env, more))

    client = SimpleNamespace(submit_job=submit_job)
    assert [send(client, "locus-1", study_sent(edition, options), options.home, {})] == sizes
    assert sizes[0] < 4e6
    environment = job_environment("/shared/locus")
    assert (environment["RAY_JOB_STOP_SIGNAL"], environment["LOCUS_HOME"]) == ("SIGTERM", "/shared/locus")


def job(name: str, study: str, home: str, state: str = "RUNNING") -> SimpleNamespace:
    metadata = {jobs.STUDY: study, jobs.HOME: home}
    status = SimpleNamespace(value=state)
    return SimpleNamespace(submission_id=name, start_time=name, metadata=metadata, status=status)


def test_of_two_jobs_of_a_study_that_of_the_home_is_meant(monkeypatch):
    """Whoever stops a study, or reads its numbers, means no other person's."""
    both = [job("locus-1", "reach@cpu", "/shared/anna"), job("locus-2", "reach@cpu", "/shared/bob")]
    monkeypatch.setattr(jobs, "connect", lambda address: SimpleNamespace(list_jobs=lambda: both))
    for home, number in ((None, "2"), ("/shared/anna", "1"), ("/shared/anna/", "1"), ("/shared/bob", "2")):
        assert jobs.attach("reach", CLOSED, home).job == f"locus-{number}"
    refusal = r"--home must be that of a job of 'reach', such as /shared/bob of locus-2, got /shared/eve"
    with pytest.raises(JobError, match=refusal):
        jobs.attach("reach", CLOSED, "/shared/eve")
    both[1].metadata[jobs.HOME] = ""
    assert jobs.attach("reach", CLOSED, "/shared/eve").job == "locus-2"


class Unready:
    """A client of a cluster that has not unpacked a job's files in time, for the first `times` jobs."""

    def __init__(self, times: int, *others: SimpleNamespace) -> None:
        self.times, self.others, self.sent = times, others, []

    def list_jobs(self):
        return [*self.others, *(SimpleNamespace(submission_id=name, metadata={}, start_time=0) for name in self.sent)]

    def submit_job(self, *, submission_id, **more):
        self.sent.append(submission_id)

    def get_job_info(self, job):
        return SimpleNamespace(message="", metadata={})

    def get_job_status(self, job):
        return SimpleNamespace(value="FAILED" if len(self.sent) <= self.times else "RUNNING")

    def get_job_logs(self, job):
        if len(self.sent) <= self.times:
            return "Traceback (most recent call last)\nFileNotFoundError: _ray_pkg_3f9a/trainables/spec.py\n"
        return 'plan\nlocus-fact {"mlflow": ""}\n'


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_study_that_runs_there_is_not_sent_again(edition, monkeypatch, state):
    """Whatever else this command asks for: nobody would tell the driver of it."""
    client = Unready(0, job("locus-1", edition.id, "/shared/locus", state))
    monkeypatch.setattr(jobs, "connect", lambda address: client)
    stop = f"locus stop {edition.id} --address {CLOSED} --home /shared/locus"
    with pytest.raises(JobError, match=rf"already running there as locus-1; .* or stop it first \({stop}\)$"):
        jobs.submit(edition, RunOptions(), CLOSED)
    assert client.sent == []
    client.others[0].status.value = "STOPPED"
    client.others[0].start_time = 1
    assert jobs.submit(edition, RunOptions(), CLOSED).job == client.sent[-1]


@pytest.mark.parametrize("times", [1, jobs.TRIES])
def test_a_study_whose_files_were_not_there_yet_is_sent_again(edition, monkeypatch, times):
    client, lines = Unready(times), []
    monkeypatch.setattr(jobs, "connect", lambda address: client)
    if times == jobs.TRIES:
        with pytest.raises(LocusError, match=r"ended before its plan .*FileNotFoundError.*the same command"):
            jobs.submit(edition, RunOptions(), CLOSED, say=lines.append)
    else:
        assert jobs.submit(edition, RunOptions(), CLOSED, say=lines.append).job == client.sent[-1]
        assert lines[-1] == "plan"
    name = edition.id.replace("@", "-").replace("~", "-")
    assert client.sent == [f"locus-{name}-{number}" for number in range(1, min(times + 1, jobs.TRIES) + 1)]
    assert f"the files of {client.sent[0]} were not there yet; they are sent again" in lines


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("Traceback:\n  File x\nOSError: disk full\n", JobError,
         r"500\): OSError: disk full; the same command goes on$"),
        ("Traceback:\nRuntimeError: Request failed: Traceback:\nOSError: disk full\n.", JobError,
         "OSError: disk full; "),
        ("Traceback:\nValueError: Job with submission_id locus-1 already exists. Use another.\n.",
         jobs.TakenError, "must be new"),
        ("<html>\n<p>sorry</p>\n</html>\n", JobError, r"refused \(status code 500\): Internal; "),
    ],
)  # fmt: skip
def test_an_error_of_the_cluster_is_one_sentence_with_its_last_line(text, kind, sentence):
    """Ray answers with a traceback of its own, and its client raises that whole."""
    with server(**VERSIONS) as address:
        client = jobs.connect(address)
        with pytest.raises(kind, match=sentence):
            client._raise_error(SimpleNamespace(status_code=500, text=text, reason="Internal"))


@pytest.mark.parametrize("error", [OSError("no space"), ValueError("odd"), RuntimeError("what\nTraceback")])
def test_any_error_of_a_submit_is_one_sentence(edition, monkeypatch, error):
    def fails(address):
        raise error

    monkeypatch.setattr(jobs, "connect", fails)
    for ask in (
        lambda: jobs.submit(edition, RunOptions(), CLOSED),
        lambda: jobs.attach("reach", CLOSED),
        lambda: jobs.submissions(CLOSED),
    ):
        with pytest.raises(JobError, match=rf"^{CLOSED} cannot be used: [^\n]*; the same command goes on$"):
            ask()
