"""The verbs for a cluster and for a study that runs: submit, logs, stop, doctor."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from service.commands.app import app, remark, resolve_chosen, say
from service.commands.options import (
    Address,
    HomeOption,
    Json,
    Known,
    Name,
    Storage,
    StudyOptions,
    Tracking,
    flag,
    option,
    takes_study_options,
)
from service.terminal.output import columns, console, counted, print_json
from trainables.errors import SpecError

if TYPE_CHECKING:
    from service.doctor import Finding


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
    from service.execution import jobs

    options = chosen.run_options(home=home)
    submission = jobs.submit(resolve_chosen(name, chosen), options, address, say=say)
    say(submission.describe())


@app.command(hidden=True)
def job(file: Path) -> None:
    """Run what a job.json says: what a cluster's job runs."""
    from service.commands.remote import carry_out

    carry_out(file)


@app.command()
def logs(
    name: Known,
    run: Annotated[str | None, option("RUN", "one run alone: its key, or row and seed as 3.0")] = None,
    follow: Annotated[bool, flag("continue until the study ends", None, "--follow", "-f")] = False,
    home: HomeOption = None,
    address: Address = None,
) -> None:
    """Print what has happened in a study, a line for every event; or the output of a submitted one."""
    if address:
        from service.execution.jobs import attach

        if run:
            raise SpecError(f"--run must stand without --address, got {run}; the output of a job has all runs")
        for line in attach(name, address, home).logs(follow=follow):
            say(line)
        return
    from service.storage import editions
    from service.storage.home import Home
    from service.terminal.live import events

    home_folder = Home.find(home)
    for line in events(home_folder, editions.latest(home_folder, name), run=run, follow=follow):
        say(line)


@app.command()
def stop(
    name: Known,
    now: Annotated[bool, flag("do not wait for the end of an epoch", None, "--now")] = False,
    home: HomeOption = None,
    address: Address = None,
) -> None:
    """Stop a study that runs, here or on a cluster: each run ends after its epoch; the same command continues."""
    if address:
        from service.execution.jobs import attach
        from service.execution.submission import STOP_S

        if now:
            raise SpecError(f"--now must stand without --address; a job has {STOP_S} s to end its epochs in any case")
        submission = attach(name, address, home)
        submission.stop()
        say(submission.describe())
        return
    from service.execution.signals import Control, request
    from service.storage import editions
    from service.storage.home import Home

    home_folder = Home.find(home)
    id = editions.latest(home_folder, name)
    does = request(home_folder, id, Control(stop="now" if now else "after the epoch"))
    remark(f"the driver of {id} {does}")


STYLES = {"ok": "green", "look": "bold yellow", "wrong": "bold red"}


@app.command()
def doctor(
    address: Address = None,
    home: HomeOption = None,
    tracking: Tracking = None,
    storage: Storage = None,
    data: Annotated[
        str | None, option("PATH", "a folder of images: reads each once, and lists those that are damaged")
    ] = None,
    as_json: Json = False,
) -> None:
    """Examine this machine, images, or whether a cluster answers: what keeps studies from running well, what to do."""
    if address is not None and (home or storage or tracking or data):
        raise SpecError("--address must stand alone: a cluster says no more than that it answers, and how large it is")
    findings = list(_examined(address, home, storage, tracking)) if data is None else _of_images(data)
    if as_json:
        print_json([finding.plain() for finding in findings])
    else:
        _show(findings)
    if any(finding.state == "wrong" for finding in findings):
        raise typer.Exit(1)


def _examined(address: str | None, home: str | None, storage: str | None, tracking: str | None) -> Iterable["Finding"]:
    if address is not None:
        from service.doctor import examine_cluster

        return examine_cluster(address)
    from service.doctor import examine
    from service.planning.run_options import RunOptions
    from service.storage.home import tracking_uri

    return examine(RunOptions(home=home, storage=storage), tracking_uri(tracking))


def _of_images(path: str) -> list["Finding"]:
    """Returns what is found in a folder of images. A terminal shows how many were read."""
    from service.doctor import examine_images

    with counted("images") as look:
        return list(examine_images(path, look))


def _show(findings: Iterable["Finding"]) -> None:
    view = columns("", "examined", "found", "what to do")
    for finding in findings:
        view.add_row(
            Text(finding.state, style=STYLES[finding.state]), Text(finding.name), Text(finding.detail), Text(finding.do)
        )
    console().print(view)
