"""`drain`: every job of a head is asked to stop, and waited for."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import SimpleNamespace

import pytest
from ray.job_submission import JobStatus

from service.execution.submission import STOP_S
from tests.deploy.deployed import DEPLOY


@pytest.fixture
def program(monkeypatch):
    """The program as a module, which does not sleep."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("drain", str(DEPLOY / "container" / "drain"))
    module = module_from_spec(spec_from_loader("drain", loader))
    loader.exec_module(module)
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    return module


class Head:
    """Jobs that end after they were looked at so often; one that never ends has None."""

    def __init__(self, **looks):
        self.looks, self.asked = looks, []

    def list_jobs(self):
        jobs = [SimpleNamespace(submission_id=None, status=JobStatus.RUNNING)]  # a driver that nobody submitted
        for name, left in self.looks.items():
            ended = left is not None and left <= 0
            jobs.append(SimpleNamespace(submission_id=name, status=JobStatus.STOPPED if ended else JobStatus.RUNNING))
            if left is not None and self.asked:
                self.looks[name] = left - 1
        return jobs

    def stop_job(self, name):
        self.asked.append(name)


def test_jobs_that_run_are_stopped_and_waited_for(program):
    head, said = Head(first=2, second=4, over=0), []
    assert program.drain(head, 30.0, said.append) == []
    assert head.asked == ["first", "second"]
    assert len(said) == 2
    assert max(head.looks.values()) <= 0


def test_jobs_that_do_not_end_are_named(program):
    assert program.drain(Head(quick=1, stuck=None), 0.2, lambda line: None) == ["stuck"]


def test_it_waits_longer_than_a_job_may_take(program, monkeypatch):
    waited = []
    monkeypatch.setattr(program, "JobSubmissionClient", lambda address: address)
    monkeypatch.setattr(program, "drain", lambda client, seconds: waited.append((client, seconds)) or ["stuck"])
    monkeypatch.setattr(sys, "argv", ["drain"])
    with pytest.raises(SystemExit, match="still running after 150 s: stuck"):
        program.main()
    ((address, seconds),) = waited
    assert address == "http://127.0.0.1:8265"
    assert seconds > STOP_S
