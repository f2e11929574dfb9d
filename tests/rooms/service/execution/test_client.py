"""Room: what a job carries, and what is refused before anything is sent."""

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
from service.execution.submission import PACKAGES, job_environment, study_sent, write_contents
from service.planning.run_options import RunOptions
from trainables.spec import LocusError

CLOSED = "http://127.0.0.1:9"


@pytest.fixture
def edition():
    return find("fourier-gamma").at("smoke", set={"data.train_size": 130})


@contextmanager
def server(status: int, *, silent: Callable[[str], bool] = lambda path: False, **said):
    """A server that gives one answer to everything, and none to a path for which `silent` holds."""
    over = threading.Event()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            if silent(self.path):
                over.wait()
                return
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

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


def test_a_cluster_that_is_not_there_is_said(edition):
    with pytest.raises(JobError, match=rf"no Ray cluster answers at {CLOSED} \(5 s\)"):
        jobs.submit(edition, RunOptions(), CLOSED)


def test_a_head_that_says_nothing_is_not_waited_for(edition, monkeypatch):
    monkeypatch.setattr(jobs, "ANSWER_S", 0.2)
    with (
        server(200, silent=lambda path: True) as address,
        pytest.raises(JobError, match=rf"no Ray cluster answers at {address} \(0\.2 s\)"),
    ):
        jobs.submit(edition, RunOptions(), address)


def test_a_head_that_stands_still_is_given_up_in_a_sentence(monkeypatch):
    """It tells its version and is silent from then on."""
    known = {"ray_version": version("ray"), "version": "4"}
    with server(200, silent=lambda path: not path.endswith("/api/version"), **known) as address:
        monkeypatch.setattr(jobs, "REQUEST_S", 1)
        with pytest.raises(JobError, match=rf"the cluster at {address} must answer within 1 s, got no answer"):
            jobs.attach("fourier-gamma", address)


@pytest.mark.parametrize("address", ["head:8265", "ray://head:10001", "auto", ""])
def test_an_address_is_a_url(edition, address):
    with pytest.raises(JobError, match="--address must be the URL"):
        jobs.submit(edition, RunOptions(), address)


def test_another_ray_is_refused_with_both_versions(edition):
    said = r"has ray 2\.41\.0, here is ray 2\.60\.\d; use the same"
    with server(200, ray_version="2.41.0", version="4") as address, pytest.raises(JobError, match=said):
        jobs.submit(edition, RunOptions(), address)


def test_a_missing_token_is_one_line(edition):
    with server(401) as address, pytest.raises(JobError, match="RAY_AUTH_TOKEN_PATH") as info:
        jobs.submit(edition, RunOptions(), address)
    assert "\n" not in str(info.value)


def test_a_home_on_a_cluster_is_an_absolute_path(edition):
    """A relative one would lie in the job's own folder, and go with Ray's session."""
    with pytest.raises(JobError, match=r"--home must be an absolute path there.*got here/locus"):
        jobs.submit(edition, RunOptions(home="here/locus"), CLOSED)


@pytest.mark.parametrize("tracking", ["https://me:secret@mlflow", "https://token@mlflow:443/x"])
def test_credentials_do_not_travel(edition, tracking):
    with pytest.raises(JobError, match="no credentials") as info:
        jobs.submit(edition, RunOptions(tracking=tracking), CLOSED)
    assert "secret" not in str(info.value)


def test_a_job_carries_the_packages_and_the_study_and_nothing_else(edition, tmp_path: Path):
    options = RunOptions(home="/shared/locus", max_concurrent=2)
    size = write_contents(tmp_path, study_sent(edition, options))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*PACKAGES, "job.json"])
    sent = json.loads((tmp_path / "job.json").read_text())
    assert Edition.read(sent["edition"]) == edition
    assert RunOptions.read(sent["options"]) == options
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".py", ".json", ".css", ".j2", ".typed"}
    assert size == sum(path.stat().st_size for path in files) < 4e6


def test_a_submission_id_is_new_and_plain():
    used = [SimpleNamespace(submission_id=f"locus-reach-cpu-3f9a-{number}") for number in (1, 2)]
    client = SimpleNamespace(list_jobs=lambda: used)
    assert jobs._name(client, "reach@cpu~3f9a") == "locus-reach-cpu-3f9a-3"


def test_a_jobs_environment_holds_no_secret(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    said = job_environment("/shared/locus")
    assert said["RAY_JOB_STOP_SIGNAL"] == "SIGTERM"
    assert said["LOCUS_HOME"] == "/shared/locus"
    assert "secret" not in str(said)


def test_of_two_jobs_of_a_study_that_of_the_home_is_meant(monkeypatch):
    """Whoever stops a study, or reads its numbers, means no other person's."""
    homes = {"locus-reach-cpu-1": "/shared/anna", "locus-reach-cpu-2": "/shared/bob"}
    known = {
        job: SimpleNamespace(submission_id=job, start_time=job, metadata={jobs.STUDY: "reach@cpu", jobs.HOME: home})
        for job, home in homes.items()
    }
    client = SimpleNamespace(list_jobs=known.values, get_job_info=known.get)
    monkeypatch.setattr(jobs, "connect", lambda address: client)
    for home, job in ((None, "-2"), ("/shared/anna", "-1"), ("/shared/anna/", "-1"), ("/shared/bob", "-2")):
        assert jobs.attach("reach", CLOSED, home).job.endswith(job)
    said = r"--home must be that of a job of 'reach', such as /shared/bob of locus-reach-cpu-2, got /shared/eve"
    with pytest.raises(JobError, match=said):
        jobs.attach("reach", CLOSED, "/shared/eve")
    known["locus-reach-cpu-2"].metadata[jobs.HOME] = ""
    assert jobs.attach("reach", CLOSED, "/shared/eve").job == "locus-reach-cpu-2"


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_study_that_runs_there_is_not_sent_again(edition, monkeypatch, state):
    """Whatever else this command asks for: nobody would tell the driver of it."""
    client = Unready(times=0)
    metadata = {jobs.STUDY: edition.id, jobs.HOME: "/shared/locus"}
    job = SimpleNamespace(submission_id="locus-1", metadata=metadata, start_time=1, status=SimpleNamespace(value=state))
    monkeypatch.setattr(client, "list_jobs", lambda: [job])
    monkeypatch.setattr(jobs, "connect", lambda address: client)
    stop = f"locus stop {edition.id} --address {CLOSED} --home /shared/locus"
    with pytest.raises(JobError, match=rf"already running there as locus-1; .* or stop it first \({stop}\)$"):
        jobs.submit(edition, RunOptions(), CLOSED)
    assert client.sent == []
    job.status.value = "STOPPED"
    assert jobs.submit(edition, RunOptions(), CLOSED).job == client.sent[-1]


class Unready:
    """A client of a cluster that has not unpacked a job's files in time, for the first `times` jobs."""

    def __init__(self, times: int) -> None:
        self.times, self.sent = times, []

    def list_jobs(self):
        return [SimpleNamespace(submission_id=job, metadata={}, start_time=0) for job in self.sent]

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


def test_a_study_whose_files_were_not_there_yet_is_sent_again(edition, monkeypatch):
    for times in (1, jobs.TRIES):
        client, lines = Unready(times), []
        monkeypatch.setattr(jobs, "connect", lambda address, client=client: client)
        if times == jobs.TRIES:
            with pytest.raises(LocusError, match=r"ended before its plan .*FileNotFoundError.*the same command"):
                jobs.submit(edition, RunOptions(), CLOSED, say=lines.append)
        else:
            assert jobs.submit(edition, RunOptions(), CLOSED, say=lines.append).job == client.sent[-1]
            assert lines[-1] == "plan"
        assert len({*client.sent}) == min(times + 1, jobs.TRIES)
        assert f"the files of {client.sent[0]} were not there yet; they are sent again" in lines


def test_an_error_of_the_cluster_is_one_sentence_with_its_last_line(monkeypatch):
    """Ray answers with a traceback of its own, and its client raises that whole."""
    known = {"ray_version": version("ray"), "version": "4"}
    with server(200, **known) as address:
        client = jobs.connect(address)
        answer = SimpleNamespace(status_code=500, text="Traceback:\n  File x\nOSError: disk full\n", reason="Internal")
        with pytest.raises(
            JobError, match=r"refused \(status code 500\): OSError: disk full; the same command goes on$"
        ):
            client._raise_error(answer)
        answer.text = "Traceback:\nRuntimeError: Request failed: Traceback:\nOSError: disk full\n."
        with pytest.raises(JobError, match=r"\(status code 500\): OSError: disk full; "):
            client._raise_error(answer)
        answer.text = "Traceback:\nValueError: Job with submission_id locus-reach-cpu-1 already exists. Use another.\n."
        with pytest.raises(jobs.TakenError):
            client._raise_error(answer)
        answer.text = "<html>\n<p>sorry</p>\n</html>\n"
        with pytest.raises(JobError, match=r"refused \(status code 500\): Internal; "):
            client._raise_error(answer)


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
        with pytest.raises(JobError, match=rf"{CLOSED} cannot be used: .*; the same command goes on$") as told:
            ask()
        assert "\n" not in str(told.value)
