"""A study on a cluster, seen from elsewhere: its jobs are listed, and what no job can tell is refused in a sentence."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.execution import jobs
from trainables.spec import LocusError, SpecError

AT = ("--address", "http://head:8265")
JOBS = (("one-1", "one@cpu", "/shared/a", "FAILED"), ("one-2", "one@cpu", "/shared/a", "RUNNING"),
        ("two-1", "two@cpu", "", "SUCCEEDED"), ("one-3", "one@cpu", "/shared/b", "STOPPED"))  # fmt: skip


@pytest.fixture(autouse=True)
def cluster(monkeypatch):
    """Four jobs: two of one study in one home, one in another, and one in the cluster's own home."""
    listed = [
        SimpleNamespace(
            submission_id=name, metadata={jobs.STUDY: study, jobs.HOME: home}, start_time=number,
            status=SimpleNamespace(value=state),
        )
        for number, (name, study, home, state) in enumerate(JOBS)
    ]  # fmt: skip
    status = {job.submission_id: job.status for job in listed}
    client = SimpleNamespace(
        list_jobs=lambda: listed, get_job_status=status.get, get_job_logs=lambda job: f"plan\n00:07  a line of {job}\n"
    )
    monkeypatch.setattr(jobs, "connect", lambda address: client)


def typed(*words):
    done = CliRunner().invoke(app, [*words, *AT])
    if done.exception:
        raise done.exception
    return done.output


def test_the_newest_job_of_each_study_and_home_is_listed():
    told = json.loads(typed("status", "--json"))
    assert [(one["study"], one["job"], one["job_state"], one["home"]) for one in told] == [
        ("one@cpu", "one-2", "RUNNING", "/shared/a"),
        ("two@cpu", "two-1", "SUCCEEDED", None),
        ("one@cpu", "one-3", "STOPPED", "/shared/b"),
    ]
    rows = [line.split() for line in typed("status").splitlines()]
    assert rows[1] == ["one@cpu", "one-2", "RUNNING", "/shared/a"]
    rows = [line.split() for line in typed("status", "--home", "/shared/a").splitlines()]
    assert [row[1] for row in rows[1:]] == ["one-2", "two-1"], "whose home may be this one, for a job does not tell"


def test_one_study_says_its_last_line_and_what_to_type():
    assert typed("status", "one", "--home", "/shared/a").splitlines() == [
        "one@cpu  RUNNING  job one-2",
        "last line  00:07  a line of one-2",
        f"watch      locus status one@cpu {' '.join(AT)} --home /shared/a",
        f"           locus logs one@cpu {' '.join(AT)} --home /shared/a -f",
        f"stop       locus stop one@cpu {' '.join(AT)} --home /shared/a",
    ]
    assert typed("logs", "one") == "plan\n00:07  a line of one-3\n"
    with pytest.raises(LocusError, match="no study 'three' was submitted to http://head:8265"):
        typed("status", "three")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("logs", "one", "--run", "0.1"), "--run must stand without --address, got 0.1"),
        (("stop", "one", "--now"), "--now must stand without --address; a job has 120 s"),
        (("doctor", "--home", "/shared/a"), "--address must stand alone"),
        (("doctor", "--data", "./pets"), "--address must stand alone"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)
def test_what_a_job_cannot_tell_is_refused(words, why):
    with pytest.raises(SpecError, match=why):
        typed(*words)
