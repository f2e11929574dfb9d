"""What a job of a cluster runs where a result is fetched: it prints an archive of it, and a refusal is a fact, too."""

import os
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.execution import submission
from service.execution.submission import SubmissionError
from service.results import Result, SubmittedStudy
from service.storage.home import Home
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import conduct

ID = arms().id
TOLD = 'locus-fact {"study": "arms@base", "home": "%s", "home_id": "another"}\n'


class Cluster:
    """A job client that runs a job at once, in this process. `jobs`: the output and the exit code of each, by name."""

    def __init__(self, **jobs: str) -> None:
        self.jobs = {name: (output, 0) for name, output in jobs.items()}

    def submit_job(self, *, submission_id, runtime_env, **more):
        env = {name: value for name, value in runtime_env["env_vars"].items() if name.startswith("LOCUS")}
        done = CliRunner(env=env).invoke(app, ["job", os.path.join(runtime_env["working_dir"], "job.json")])
        self.jobs[submission_id] = done.output, done.exit_code

    def get_job_status(self, job):
        return SimpleNamespace(value="FAILED" if self.jobs[job][1] else "SUCCEEDED")

    def get_job_logs(self, job):
        return self.jobs[job][0]

    def get_job_info(self, job):
        return SimpleNamespace(message="")


@pytest.fixture
def home(tmp_path):
    found = Home(tmp_path / "home")
    conduct(found, arms())
    found.named()
    return found


@pytest.fixture
def study(home, tmp_path, monkeypatch):
    """The study as its client sees it, for which the home lies elsewhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return SubmittedStudy(Cluster(first=TOLD % home.root), "http://head:8265", "first", ID, None)


def test_the_result_is_fetched_by_a_job_but_from_a_home_that_is_seen(home, study):
    result = study.result()
    assert result.home.root.is_relative_to(home.root.parent / "cache")
    assert len(result.rows) > 1
    assert result.table().to_csv() == Result.open(home, ID).table().to_csv()
    assert result.home.fetched.read_text() == f"{home.root} of the cluster at http://head:8265"

    jobs = len(study.client.jobs)
    study.client.jobs["first"] = TOLD.replace("another", home.id) % home.root, 0
    assert study.result().home.root == home.root
    assert len(study.client.jobs) == jobs


def test_a_refusal_is_the_clients_own_and_a_job_that_breaks_is_told_by_its_last_line(home, study, monkeypatch):
    for id, folder, why in (("nothing@base", str(home.root), "no study 'nothing@base'"), (ID, "/proc/none", ID)):
        with pytest.raises(SubmissionError, match=why):
            study.archive(id, folder)

    def killed(*, submission_id, **more):
        study.client.jobs[submission_id] = "Killed\n", 1

    monkeypatch.setattr(study.client, "submit_job", killed)
    with pytest.raises(SubmissionError, match=r"locus-result-\w+ ended without an answer: Killed$"):
        study.archive(ID, None)


def test_a_job_that_does_not_begin_is_not_waited_for(home, study, monkeypatch):
    monkeypatch.setattr(submission, "ANSWER_S", 0.01)
    monkeypatch.setattr(study.client, "get_job_status", lambda job: SimpleNamespace(value="PENDING"))
    with pytest.raises(SubmissionError, match=r"head:8265 must answer within 0.01 s, got a job that is PENDING"):
        study.archive(ID, str(home.root))
