"""The verb that sends a study to a Ray cluster, and the one that a cluster's job is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.commands.app import app, resolve, say
from service.terminal.options import (
    AdoptOption,
    Arms,
    As,
    Budget,
    Compile,
    Data,
    Device,
    Download,
    Experiment,
    Fresh,
    Hours,
    LoaderWorkers,
    MaxConcurrent,
    Name,
    Preset,
    RunHours,
    RunsPerGpu,
    Seeds,
    Set,
    Storage,
    Threads,
    Tracking,
    Trials,
    Workers,
)

if TYPE_CHECKING:
    from service.results import SubmittedStudy

JobAddress = Annotated[str, typer.Option(help="a Ray cluster's job address, http://head:8265")]


@app.command()
def submit(
    name: Name,
    address: JobAddress,
    home: Annotated[
        str | None, typer.Option(help="the driver's home there; may be left out with LOCUS_HOME there")
    ] = None,
    budget: Budget = None,
    set: Set = None,
    preset: Preset = None,
    seeds: Seeds = None,
    trials: Trials = None,
    edition: As = "",
    data: Data = "",
    arms: Arms = "",
    tracking: Tracking = None,
    experiment: Experiment = None,
    storage: Storage = None,
    max_concurrent: MaxConcurrent = None,
    threads: Threads = 1,
    workers: Workers = 0,
    loader_workers: LoaderWorkers = None,
    device: Device = "auto",
    runs_per_gpu: RunsPerGpu = 1,
    compile: Compile = False,
    hours: Hours = None,
    run_hours: RunHours = None,
    adopt: AdoptOption = False,
    download: Download = False,
    fresh: Fresh = False,
) -> None:
    """Submit a study to a Ray cluster and follow until its plan is printed there."""
    from service.execution.jobs import client as jobs
    from service.planning.run_options import RunOptions

    options = RunOptions(
        home=home,
        tracking=tracking,
        experiment=experiment,
        storage=storage,
        max_concurrent=max_concurrent,
        threads=threads,
        workers=workers,
        loader_workers=loader_workers,
        device=device,
        runs_per_gpu=runs_per_gpu,
        compile=compile,
        hours=hours,
        run_hours=run_hours,
        adopt=adopt,
        download=download,
    )
    size = {"budget": budget, "seeds": seeds, "trials": trials, "edition": edition, "data": data}
    submission = jobs.submit(resolve(name, set, preset, arms, **size), options, address, fresh=fresh, say=say)
    say(submission.describe())


@app.command(hidden=True)
def job(file: Path) -> None:
    """Run what a job.json says: what a cluster's job runs."""
    from service.commands.job import carry_out

    carry_out(file)


def attached(name: str, address: str) -> "SubmittedStudy":
    """The newest submission of a study's name. Raises: JobError where there is none, or the cluster does not answer."""
    from service.execution.jobs import client as jobs
    from service.results import SubmittedStudy

    return SubmittedStudy(**vars(jobs.attach(name, address)))
