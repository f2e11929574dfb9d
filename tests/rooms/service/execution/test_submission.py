"""A job that is watched through a bad connection: answers that are lost are asked for again."""

from types import SimpleNamespace

import pytest
import requests

from service.execution import submission
from service.execution.submission import Submission, SubmissionError, UnpackedError


class Client:
    """A job client whose answers are written down; an exception is raised, and the last answer stays."""

    def __init__(self, statuses, logs=("",)):
        self.statuses, self.texts = list(statuses), list(logs)

    def get_job_info(self, job):
        return SimpleNamespace(message="")

    def get_job_status(self, job):
        return SimpleNamespace(value=self._next(self.statuses))

    def get_job_logs(self, job):
        return self._next(self.texts)

    def _next(self, answers):
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(submission, "POLL_S", 0.0)
    monkeypatch.setattr(submission, "AGAIN_S", 0.001)


def watched(*answers, logs=("",)):
    return Submission(Client(answers, logs), "http://head:8265", "locus-1", "reach@base", None)


@pytest.mark.parametrize(
    "lost",
    [
        requests.ConnectionError("refused"),
        requests.Timeout("slow"),
        ConnectionError("reset"),
        RuntimeError("Request failed with status code 503: unavailable."),
    ],
)
def test_an_answer_that_is_lost_is_asked_for_again(lost):
    one = watched(lost, lost, "RUNNING", lost, "SUCCEEDED")
    assert one.status() == "RUNNING"
    assert one.status() == "SUCCEEDED"


def test_a_cluster_that_stays_away_is_an_error_and_no_wait_without_end(monkeypatch):
    monkeypatch.setattr(submission, "LOST_S", 0.05)
    with pytest.raises(SubmissionError, match=r"head:8265 has not answered for .* minutes; the study may still run"):
        watched(requests.ConnectionError("refused")).status()


def test_a_refusal_is_not_asked_again():
    with pytest.raises(RuntimeError, match="status code 404"):
        watched(RuntimeError("Request failed with status code 404: no such job."), "RUNNING").status()


def test_a_line_that_is_still_printed_waits():
    one = watched("RUNNING", logs=("plan: reach@base: 3 runs\n00:02 epo",))
    assert list(one.logs()) == ["plan: reach@base: 3 runs"]
    ended = watched("SUCCEEDED", logs=("plan: reach@base: 3 runs\n00:02 epoch 2",))
    assert list(ended.logs()) == ["plan: reach@base: 3 runs", "00:02 epoch 2"]


STOPPED = 'locus-fact {"ended": "stopped"}'


def test_facts_are_for_the_client_alone_and_a_torn_one_is_none():
    logs = 'locus-fact {"study": "reach@base", "home": "/shared"}\nplan\nlocus-fact {"mlflow": "x"}\nlocus-fact {"en'
    one = watched("RUNNING", logs=(logs,))
    assert one.facts() == {"study": "reach@base", "home": "/shared", "mlflow": "x"}
    assert list(one.logs()) == ["plan"]


def test_a_driver_that_another_command_stopped_has_not_failed():
    """Ray takes its exit code, 130, for a failure."""
    one = watched("FAILED", logs=(f"stopped; what is finished is kept\n{STOPPED}\n",))
    assert one.status() == "STOPPED"
    one.wait_for_end()
    assert watched("FAILED", logs=("killed\n",)).status() == "FAILED"


def test_what_is_printed_to_be_typed_names_the_home_and_stops_no_job_that_has_ended():
    at = "reach@base --address http://head:8265 --home '/shared disk/home'"
    for state, last in (("RUNNING", f"stop       locus stop {at}"), ("SUCCEEDED", f"report     locus report {at}")):
        one = Submission(Client([state]), "http://head:8265", "locus-1", "reach@base", "/shared disk/home")
        lines = one.describe().splitlines()
        assert lines[-3:] == [f"watch      locus status {at}", f"           locus logs {at} -f", last]


def test_a_study_with_failed_runs_has_a_result_and_one_that_broke_has_none():
    watched("FAILED", logs=('locus-fact {"ended": "finished"}\n',)).wait_for_end()
    for logs in ('locus-fact {"ended": "failed"}\nten in a row\n', "ten in a row\n"):
        with pytest.raises(SubmissionError, match="locus-1 failed: ten in a row"):
            watched("FAILED", logs=(logs,)).wait_for_end()


def test_a_home_is_the_jobs_where_its_id_is_the_same(home, tmp_path):
    """On a laptop the same path may hold a home of its own, with a study of the same name."""
    one = watched("SUCCEEDED")
    assert one.visible_home({"home": str(tmp_path), "home_id": "3f9a"}) is None
    id = home.named()
    assert one.visible_home({"home": str(tmp_path), "home_id": id}).root == home.root
    assert one.visible_home({"home": str(tmp_path), "home_id": "another"}) is None
    assert one.visible_home({"home": str(tmp_path)}) is None


TRACE = """Traceback (most recent call last):
  File "/tmp/ray/session/runtime_resources/working_dir_files/_ray_pkg_3f9a/service/cli.py", line 3, in <module>
FileNotFoundError: [Errno 2] No such file or directory: '/tmp/ray/_ray_pkg_3f9a/trainables/training/loop.py'
"""


@pytest.mark.parametrize(
    ("logs", "error"),
    [(TRACE, UnpackedError), (TRACE.replace("_ray_pkg_3f9a", "mine"), SubmissionError)],
    ids=["files not unpacked", "another file"],
)
def test_a_traceback_before_the_plan_is_told_by_its_last_line(logs, error):
    said: list[str] = []
    with pytest.raises(SubmissionError, match=r"locus-1 ended before its plan was made: FileNotFoundError: ") as told:
        said.extend(watched("FAILED", logs=(f"versions: python 3.11\n{logs}",)).followed())
    assert type(told.value) is error
    assert str(told.value).endswith("; the same command tries again")
    one = watched("FAILED", logs=(f"versions: python 3.11\n{logs}",)).followed()
    assert next(one) == "versions: python 3.11", "the line before is shown, and no other"
    with pytest.raises(SubmissionError):
        next(one)
