"""The verb that sends a study to a Ray cluster, and the one that a cluster's job is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.commands.app import app, resolve_chosen, say
from service.commands.options import Name, StudyOptions, takes_study_options

if TYPE_CHECKING:
    from service.results import SubmittedStudy

JobAddress = Annotated[str, typer.Option(help="a Ray cluster's job address, http://head:8265")]


@app.command()
@takes_study_options("home")
def submit(
    name: Name,
    address: JobAddress,
    chosen: StudyOptions,
    home: Annotated[
        str | None, typer.Option(help="the driver's home there; may be left out with LOCUS_HOME there")
    ] = None,
) -> None:
    """Submit a study to a Ray cluster and follow until its plan is printed there."""
    from service.execution.jobs import client as jobs

    options = chosen.run_options(home=home)
    submission = jobs.submit(resolve_chosen(name, chosen), options, address, fresh=chosen.fresh, say=say)
    say(submission.describe())


@app.command(hidden=True)
def job(file: Path) -> None:
    """Run what a job.json says: what a cluster's job runs."""
    from service.commands.job import carry_out

    carry_out(file)


def attached(name: str, address: str) -> "SubmittedStudy":
    """The newest submission of a study's name. Raises: JobError if there is none, or the cluster does not answer."""
    from service.execution.jobs import client as jobs
    from service.results import SubmittedStudy

    return SubmittedStudy(**vars(jobs.attach(name, address)))
