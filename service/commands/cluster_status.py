"""What `status` shows of the studies of a cluster: their own state, and that of their jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from search_spaces.study import Edition
from service.analysis.study_status import StudyStatus, all_status, one_status
from service.commands.app import remark, say
from service.storage import editions
from service.storage.home import Home
from service.terminal import studies_tables
from service.terminal.output import console, labelled, print_json

if TYPE_CHECKING:
    from service.results import SubmittedStudy


def status(name: str | None, address: str, home: str | None, *, adopt: bool, as_json: bool) -> None:
    """Shows a study of a cluster, or all. `home`: if the home is seen from here, should the cluster be gone.

    Raises: LocusError if the cluster does not answer or does not know the study, and no home is given.
    """
    from service.execution.jobs.client import GoneError

    try:
        if name is None:
            _all(address, adopt=adopt, as_json=as_json)
        else:
            _one(name, address, adopt=adopt, as_json=as_json)
    except GoneError as error:
        if home is None:
            raise GoneError(f"{error}; --home shows what a home that this machine sees has") from None
        _lost(name, address, Home.usable(home), str(error), adopt=adopt, as_json=as_json)


def _one(name: str, address: str, *, adopt: bool, as_json: bool) -> None:
    from service.commands.cluster import attached
    from service.execution.jobs.asking import AnswerError

    submission = attached(name, address)
    try:
        found, edition = submission.study_status(adopt=adopt)
    except AnswerError as error:  # its job has not begun, or was refused
        state = submission.status()
        if as_json:
            print_json([_unknown(submission.study, str(error)).plain() | _job(submission, state)])
        else:
            say(submission.describe())
            remark(f"the study itself cannot be shown: {error}")
        return
    state = submission.status()
    if as_json:
        print_json([found.plain() | _job(submission, state)])
    else:
        _show(found, edition, submission, state)


def _show(found: StudyStatus, edition: Edition, submission: SubmittedStudy, state: str) -> None:
    out, at = console(), f"{found.id} --address {submission.address}"
    facts = submission.facts()
    studies_tables.status_rows(found, edition)
    labelled(out, "job", f"{submission.job}  {state}")
    if url := facts.get("mlflow"):
        labelled(out, "MLflow", url)
    if state in ("PENDING", "RUNNING"):
        labelled(out, "watch", f"locus logs {at} -f")
        labelled(out, "stop", f"locus stop {at}")
        return
    labelled(out, "report", f"locus report {at}")
    if found.state in ("unfinished", "failed"):
        labelled(out, "to go on", _submit(found.id, submission.address, submission.home))


def _submit(id: str, address: str, home: str | None) -> str:
    """The command that goes on with a study on a cluster."""
    return f"locus submit {id} --address {address}" + (f" --home {home}" if home else "")


def _all(address: str, *, adopt: bool, as_json: bool) -> None:
    from service.execution.jobs.client import submissions
    from service.results import SubmittedStudy

    jobs = {(one.home, str(one.facts().get("study") or one.study)): one for one in submissions(address)}
    if not jobs and not as_json:
        remark(f"no study was submitted to {address} yet")
        return
    rows: list[tuple[StudyStatus, dict[str, Any]]] = []
    for home in dict.fromkeys(home for home, _ in jobs):
        mine = {id: SubmittedStudy(**vars(one)) for (there, id), one in jobs.items() if there == home}
        states = {id: one.status() for id, one in mine.items()}
        for found in _of_home(mine, adopt=adopt):
            rows.append((found, _job(mine[found.id], states[found.id]) if found.id in mine else {}))
    if as_json:
        print_json([found.plain() | job for found, job in rows])
    else:
        studies_tables.status_table([replace(one, state=_both(one.state, job.get("job_state"))) for one, job in rows])


def _of_home(mine: dict[str, SubmittedStudy], *, adopt: bool) -> Iterator[StudyStatus]:
    """Every study of a home, and those that were submitted and are not there. `mine`: the home's jobs, by study."""
    from service.execution.jobs.asking import AnswerError

    try:
        found = next(reversed(mine.values())).home_status(adopt=adopt)
        why = "not in its home yet"
    except AnswerError as error:
        found, why = [], str(error)
    yield from found
    yield from (_unknown(id, why) for id in mine if id not in {one.id for one in found})


def _lost(name: str | None, address: str, home: Home, why: str, *, adopt: bool, as_json: bool) -> None:
    """Shows what a home has of studies whose cluster is gone: those that nobody runs are lost."""
    ids = home.ids() if name is None else [editions.latest(home, name)]
    whole = all_status(home, adopt=adopt) if name is None else [one_status(home, ids[0], adopt=adopt)]
    found = [replace(one, state="lost") if one.state == "unfinished" else one for one in whole]
    if as_json:
        print_json([one.plain() | {"job": None, "job_state": None, "why": why} for one in found])
        return
    if name is None:
        studies_tables.status_table(found)
    else:
        studies_tables.status_rows(found[0], editions.stored(home, ids[0]))
    remark(why)
    for one in found:
        if one.state in ("lost", "failed"):
            labelled(console(), "to go on", _submit(one.id, address, str(home.root)))


def _job(submission: SubmittedStudy, state: str) -> dict[str, Any]:
    return {"job": submission.job, "job_state": state}


def _both(state: str, job: str | None) -> str:
    return f"{state} (job {job})" if job else state


def _unknown(id: str, why: str) -> StudyStatus:
    """A study of which only the job is known."""
    return StudyStatus(id, "", "unknown", 0, 0, 0, 0, 0, best="", last=None, rows=[], trouble=why)
