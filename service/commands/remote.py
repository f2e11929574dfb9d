"""A study on a cluster, at its two ends: what its job runs, and what is shown here of the jobs."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import typer

from search_spaces.study import Edition
from service.commands.app import remark, say
from service.commands.running import run_resolved
from service.execution.submission import pack, tell
from service.planning.run_options import RunOptions
from service.storage import editions
from service.storage.home import Home
from service.terminal import summaries
from service.terminal.output import columns, console, print_json, row
from trainables.spec import LocusError
from trainables.trusted import named


def carry_out(file: Path) -> None:
    """Runs what a job.json says. A refusal is a fact for the client, too. Raises: Exit."""
    sent = json.loads(file.read_text(encoding="utf-8"))
    try:
        if id := sent.get("result_of"):
            home = Home.find()
            editions.stored(home, id)
            tell(archive=base64.b64encode(pack(home, id)).decode())
            return
        summaries.versions(sent["python"])
        options = RunOptions.read(sent["options"] | {"address": "auto"})
        if options.home:  # the home of this job alone, so the commands that are printed must name it
            os.environ.pop("LOCUS_HOME", None)
        with named():
            edition = Edition.read(sent["edition"])
        run_resolved(edition, options, detail="all", tell=tell)
    except LocusError as error:
        tell(refused=str(error))
        raise typer.Exit(2) from None


def show_jobs(name: str | None, address: str, home: str | None, *, as_json: bool) -> None:
    """Shows the newest job of a study, or of each study, that was submitted to a cluster.

    Raises: JobError if there is none of that name, or the cluster does not answer.
    """
    from service.execution import jobs

    newest = jobs.of_home(jobs.submissions(address), home) if name is None else [jobs.attach(name, address, home)]
    if name is not None and not as_json:
        say(newest[0].describe())
        return
    states = [{"study": job.study, "job": job.job, "job_state": job.status(), "home": job.home} for job in newest]
    if as_json:
        print_json(states)
    elif not states:
        remark(f"no study was submitted to {address} yet")
    else:
        table = columns("study", "job", "state", "home")
        for state in states:
            row(table, *(text or "of the cluster" for text in state.values()))
        console().print(table)
