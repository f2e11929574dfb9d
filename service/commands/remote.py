"""A study on a cluster, at its two ends: what its job runs, and what `status` shows of it here."""

from __future__ import annotations

import base64
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from search_spaces.study import Edition
from service.analysis.study_status import StudyStatus, all_status, one_status
from service.commands.app import remark, say
from service.commands.running import run_resolved
from service.execution import job_messages
from service.execution.job_messages import AnyQuestion, Asked, EventsOf, More, ResultOf, StatusOf, StopNow, tell
from service.execution.signals import Control
from service.planning.run_options import RunOptions
from service.storage import editions
from service.storage.home import Home
from service.terminal import summaries, tables
from service.terminal.output import console, labelled, print_json
from trainables.spec import LocusError
from trainables.trusted import named

if TYPE_CHECKING:
    from service.results import SubmittedStudy


def carry_out(file: Path) -> None:
    """Runs what a job.json says. A refusal is a fact for the client, too. Raises: Exit."""
    sent = json.loads(file.read_text(encoding="utf-8"))
    try:
        if "question" in sent:
            tell(answer=answer(Asked.read({"question": sent["question"]}).question))
        else:
            summaries.versions(sent["python"])
            options = RunOptions.read(sent["options"] | {"address": "auto"})
            if options.home:  # the home of this job alone, so the commands that are printed must name it
                os.environ.pop("LOCUS_HOME", None)
            with named():
                edition = Edition.read(sent["edition"])
            run_resolved(edition, options, fresh=sent["fresh"], detail="all", tell=tell)
    except LocusError as error:
        tell(refused=str(error))
        raise typer.Exit(2) from None


def answer(question: AnyQuestion) -> Any:
    """Returns the answer to a question, as plain JSON values; events are printed as they come.

    Raises: LocusError if it has none.
    """
    home = Home.find(question.home)
    match question:
        case More():
            from service.execution.signals import change

            return str(change(question.edition, home, question.options))
        case StopNow():
            from service.execution.signals import request

            return request(home, question.study, Control(stop="now"))
        case EventsOf():
            return _print_events(home, question)
        case StatusOf():
            return _status(home, question)
        case ResultOf():
            editions.stored(home, question.study)
            return base64.b64encode(job_messages.pack(home, question.study)).decode()


def _print_events(home: Home, question: EventsOf) -> bool:
    from service.terminal.live import events

    id = editions.latest(home, question.study)
    for line in events(home, id, run=question.run, follow=question.follow):
        say(line)
    return True


def _status(home: Home, question: StatusOf) -> dict[str, Any]:
    from service import api

    statuses = api.status(question.study, home=str(home.root), adopt=question.adopt)
    definition = editions.stored(home, statuses[0].id).plain() if question.study else None
    return {"home": str(home.root), "studies": [asdict(status) for status in statuses], "edition": definition}


def cluster_status(name: str | None, address: str, home: str | None, *, adopt: bool, as_json: bool) -> None:
    """Shows a study of a cluster, or all. `home`: if the home is seen from here, should the cluster be gone.

    Raises: LocusError if the cluster does not answer or does not know the study, and no home is given.
    """
    from service.execution.jobs import GoneError

    try:
        if name is None:
            _all_of_cluster(address, adopt=adopt, as_json=as_json)
        else:
            _one_of_cluster(name, address, home, adopt=adopt, as_json=as_json)
    except GoneError as error:
        if home is None or not Path(home).is_dir():
            raise GoneError(f"{error}; --home shows what a home that this machine sees has") from None
        _of_lost_cluster(name, address, Home.usable(home), str(error), adopt=adopt, as_json=as_json)


def _one_of_cluster(name: str, address: str, home: str | None, *, adopt: bool, as_json: bool) -> None:
    from service.execution.submission import AnswerError

    submission = attached(name, address, home)
    try:
        status, edition = submission.study_status(adopt=adopt)
    except AnswerError as error:  # its job has not begun, or was refused
        state = submission.status()
        if as_json:
            print_json([_known_by_job(submission.study, str(error)).plain() | _job_fields(submission, state)])
        else:
            say(submission.describe())
            remark(f"the study itself cannot be shown: {error}")
        return
    state = submission.status()
    if as_json:
        print_json([status.plain() | _job_fields(submission, state)])
    else:
        _show_of_cluster(status, edition, submission, state)


def _show_of_cluster(status: StudyStatus, edition: Edition, submission: SubmittedStudy, state: str) -> None:
    out, at = console(), submission.at
    facts = submission.facts()
    tables.status_rows(status, edition)
    labelled(out, "job", f"{submission.job}  {state}")
    if url := facts.get("mlflow"):
        labelled(out, "MLflow", url)
    if state in ("PENDING", "RUNNING"):
        labelled(out, "watch", f"locus logs {at} -f")
        labelled(out, "stop", f"locus stop {at}")
        return
    labelled(out, "report", f"locus report {at}")
    if status.state in ("unfinished", "failed"):
        labelled(out, "to go on", _submit_command(status.id, submission.address, submission.home))


def _submit_command(id: str, address: str, home: str | None) -> str:
    """Returns the command that goes on with a study on a cluster."""
    return f"locus submit {id} --address {address}" + (f" --home {shlex.quote(home)}" if home else "")


def _all_of_cluster(address: str, *, adopt: bool, as_json: bool) -> None:
    from service.execution.jobs import submissions
    from service.results import SubmittedStudy

    jobs = {
        (submission.home, str(submission.facts().get("study") or submission.study)): submission
        for submission in submissions(address)
    }
    if not jobs and not as_json:
        remark(f"no study was submitted to {address} yet")
        return
    rows: list[tuple[StudyStatus, dict[str, Any]]] = []
    for home in dict.fromkeys(home for home, _ in jobs):
        mine = {id: SubmittedStudy(**vars(job)) for (there, id), job in jobs.items() if there == home}
        states = {id: study.status() for id, study in mine.items()}
        for status in _of_home(mine, adopt=adopt):
            rows.append((status, _job_fields(mine[status.id], states[status.id]) if status.id in mine else {}))
    if as_json:
        print_json([status.plain() | job for status, job in rows])
    else:
        tables.status_table(
            [
                replace(status, state=f"{status.state} (job {job['job_state']})") if job else status
                for status, job in rows
            ]
        )


def _of_home(mine: dict[str, SubmittedStudy], *, adopt: bool) -> Iterator[StudyStatus]:
    """Yields every study of a home, and those that were submitted and are not there.

    `mine`: the home's jobs, by study.
    """
    from service.execution.submission import AnswerError

    try:
        statuses = next(reversed(mine.values())).home_status(adopt=adopt)
        why = "not in its home yet"
    except AnswerError as error:
        statuses, why = [], str(error)
    yield from statuses
    yield from (_known_by_job(id, why) for id in mine if id not in {status.id for status in statuses})


def _of_lost_cluster(name: str | None, address: str, home: Home, why: str, *, adopt: bool, as_json: bool) -> None:
    """Shows what a home has of studies whose cluster is gone: those that nobody runs are lost."""
    ids = home.ids() if name is None else [editions.latest(home, name)]
    whole = all_status(home, adopt=adopt) if name is None else [one_status(home, ids[0], adopt=adopt)]
    statuses = [replace(status, state="lost") if status.state == "unfinished" else status for status in whole]
    if as_json:
        print_json([status.plain() | {"job": None, "job_state": None, "why": why} for status in statuses])
        return
    if name is None:
        tables.status_table(statuses)
    else:
        tables.status_rows(statuses[0], editions.stored(home, ids[0]))
    remark(why)
    for status in statuses:
        if status.state in ("lost", "failed"):
            labelled(console(), "to go on", _submit_command(status.id, address, str(home.root)))


def _job_fields(submission: SubmittedStudy, state: str) -> dict[str, Any]:
    return {"job": submission.job, "job_state": state}


def _known_by_job(id: str, why: str) -> StudyStatus:
    """Returns a study of which only the job is known."""
    return StudyStatus(id, "", "unknown", 0, 0, 0, 0, 0, best="", last=None, rows=[], trouble=why)


def attached(name: str, address: str, home: str | None = None) -> SubmittedStudy:
    """Returns the newest submission of a study's name, in a home if one is given.

    Raises: JobError if there is none, or the cluster does not answer.
    """
    from service.execution import jobs
    from service.results import SubmittedStudy

    return SubmittedStudy(**vars(jobs.attach(name, address, home)))
