"""A job that is watched through a bad connection: answers that are lost are asked for again."""

from types import SimpleNamespace

import pytest
import requests

from service.execution.jobs import submission
from service.execution.jobs.submission import Submission, SubmissionError


class Client:
    """A job client whose answers are written down; an exception is raised, and the last answer stays."""

    def __init__(self, statuses, logs=("",)):
        self.statuses, self.texts = list(statuses), list(logs)

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


def test_a_line_that_is_still_printed_is_shown_whole_and_once():
    logs = ("plan: reach@base: 3 runs\n00:02 epo", "plan: reach@base: 3 runs\n00:02 epoch 2\n00:04", "")
    logs = (*logs[:2], "plan: reach@base: 3 runs\n00:02 epoch 2\n00:04 done")
    one = watched("RUNNING", "RUNNING", "SUCCEEDED", logs=logs)
    assert list(one.logs(follow=True)) == ["plan: reach@base: 3 runs", "00:02 epoch 2", "00:04 done"]
