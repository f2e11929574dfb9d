"""Sends a question to a cluster as a small job, and reads its answer. Earlier questions are removed from Ray's list."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from service.execution.jobs.contents import question_sent, send
from service.execution.jobs.messages import Question, told
from service.execution.jobs.submission import ENDED, Submission
from trainables.spec import LocusError

ASKS = "locus.asks"
"""What the metadata of such a job tell: the job that it asks about."""
ANSWER_S = 300.0
"""How long an answer may take: a busy head starts a job in half a minute."""
KEPT_S = 600
"""How long a question stays in Ray's list of jobs."""


class AnswerError(LocusError):
    """A question that a cluster refused, or did not answer."""


def ask(about: Submission, question: Question) -> Any:
    """The answer to a question, as plain JSON values.

    Raises: AnswerError with the refusal, or where there is no answer. Cost: 5-10 s.
    """
    with _asking(about, question) as job:
        state = job.wait_until_ended(ANSWER_S)
        if state not in ENDED:
            raise AnswerError(f"{about.address} must answer within {ANSWER_S:g} s, got a job that is {state}")
        return _answer(job, told(job.printed()))


def ask_for_lines(about: Submission, question: Question) -> Iterator[str]:
    """The lines that answer a question, as they come. Raises: AnswerError as `ask` does."""
    with _asking(about, question) as job:
        facts: dict[str, Any] = {}
        for line in job.printed(follow=True):
            if news := told([line]):
                facts |= news
            elif "refused" not in facts:  # the lines behind a refusal repeat it
                yield line
        _answer(job, facts)


def _answer(job: Submission, facts: dict[str, Any]) -> Any:
    if "refused" in facts:
        raise AnswerError(facts["refused"])
    if "answer" not in facts:
        raise AnswerError(f"{job.job} ended without an answer: {job.trouble()}")
    return facts["answer"]


@contextmanager
def _asking(about: Submission, question: Question) -> Iterator[Submission]:
    """A job that asks, while the block lasts."""
    name = f"locus-asks-{uuid.uuid4().hex[:12]}"  # Ray takes each name once, also after its job was deleted
    send(about.client, name, question_sent(question), question.home, {ASKS: about.job})
    job = Submission(about.client, about.address, name, about.study, about.home)
    try:
        yield job
    finally:
        with suppress(RuntimeError, LocusError):  # what is left of it is a line in Ray's list
            if job.status() not in ENDED:
                job.ask_to_stop()
            _clear(about.client)


def _clear(client: Any) -> None:
    """Removes earlier questions from Ray's list. One that just ended stays: Ray would take it for a job that broke."""
    jobs = client.list_jobs()
    now = max(job.start_time or 0 for job in jobs)  # the newest job was sent just now, by the cluster's clock
    for job in jobs:
        if ASKS in (job.metadata or {}) and job.end_time and now - job.end_time > 1000 * KEPT_S:
            client.delete_job(job.submission_id)
