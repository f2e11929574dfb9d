"""Defines the verbs for a cluster and for a study that runs: submit, logs, stop, doctor; and job, for a cluster."""

import base64
import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from service.commands import options
from service.commands.app import app, latest, remark, resolve_chosen, say
from service.commands.options import flag, option
from service.terminal.output import columns, console, counted, print_json
from trainables.errors import LocusError, SpecError


@app.command()
@options.takes_study_options("home")
def submit(
    name: options.Name,
    address: Annotated[str, typer.Option(help="a Ray cluster's job address, http://head:8265")],
    chosen: options.StudyOptions,
    home: Annotated[
        str | None, typer.Option(help="the driver's home there; may be left out with LOCUS_HOME there")
    ] = None,
) -> None:
    """Submit a study to a Ray cluster and follow until its plan is printed there."""
    from service.execution import jobs

    run_options = chosen.run_options(home=home)
    submission = jobs.submit(resolve_chosen(name, chosen), run_options, address, say=say)
    say(submission.describe())


@app.command(hidden=True)
def job(file: Path) -> None:
    """Run what a job.json says: what a cluster's job runs."""
    from search_spaces.study import Edition
    from service.commands.running import run_resolved
    from service.execution.submission import pack, tell
    from service.planning.run_options import RunOptions
    from service.storage import editions
    from service.storage.home import Home
    from trainables.trusted import named

    content = json.loads(file.read_text(encoding="utf-8"))
    try:
        if id := content.get("result_of"):
            home = Home.find()
            editions.stored(home, id)
            tell(archive=base64.b64encode(pack(home, id)).decode())
            return
        here, sender = platform.python_version(), content["python"]
        if here.split(".")[:2] != sender.split(".")[:2]:
            raise SpecError(f"the cluster has Python {here}, the sender {sender}; use the same")
        try:
            torch = version("torch")
        except PackageNotFoundError:
            raise SpecError(
                "the cluster has no torch; in a checkout of locus: pip install '.[train]' on its nodes"
            ) from None
        print(f"versions: python {here}, ray {version('ray')}, torch {torch}", flush=True)
        run_options = RunOptions.read(content["options"] | {"address": "auto"})
        if run_options.home:  # the home of this job alone, so the commands that are printed must name it
            os.environ.pop("LOCUS_HOME", None)
        with named():
            edition = Edition.read(content["edition"])
        run_resolved(edition, run_options, detail="all", tell=tell)
    except LocusError as error:  # a refusal is a fact for the client, and a line for who reads the log
        print(f"locus: {error}", flush=True)
        tell(refused=str(error))
        raise typer.Exit(2) from None


@app.command()
def logs(
    name: options.Known,
    run: Annotated[str | None, option("RUN", "one run alone: its key, or row and seed as 3.0")] = None,
    follow: Annotated[bool, flag("continue until the study ends", None, "--follow", "-f")] = False,
    home: options.HomeOption = None,
    address: options.Address = None,
) -> None:
    """Print what has happened in a study, a line for every event; or the output of a submitted one."""
    if address:
        from service.execution.jobs import attach

        if run:
            raise SpecError(f"--run must stand without --address, got {run}; the output of a job has all runs")
        for line in attach(name, address, home).logs(follow=follow):
            say(line)
        return
    from service.terminal.live import events

    home_folder, id = latest(name, home)
    for line in events(home_folder, id, run=run, follow=follow):
        say(line)


@app.command()
def stop(
    name: options.Known,
    now: Annotated[bool, flag("do not wait for the end of an epoch", None, "--now")] = False,
    home: options.HomeOption = None,
    address: options.Address = None,
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

    home_folder, id = latest(name, home)
    does = request(home_folder, id, Control(stop="now" if now else "after the epoch"))
    remark(f"the driver of {id} {does}")


@app.command()
def doctor(
    address: options.Address = None,
    home: options.HomeOption = None,
    tracking: options.Tracking = None,
    storage: options.Storage = None,
    data: Annotated[
        str | None, option("PATH", "a folder of images: reads each once, and lists those that are damaged")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Examine this machine, images, or whether a cluster answers: what keeps studies from running well, what to do."""
    if address is not None and (home or storage or tracking or data):
        raise SpecError("--address must stand alone: a cluster says no more than that it answers, and how large it is")
    from service import doctor as examinations

    if data is not None:
        with counted("images") as look:  # a terminal shows how many were read
            findings = list(examinations.examine_images(data, look))
    elif address is not None:
        findings = list(examinations.examine_cluster(address))
    else:
        from service.planning.run_options import RunOptions
        from service.storage.home import tracking_uri

        run_options = RunOptions(home=home, storage=storage)
        findings = list(examinations.examine(run_options, tracking_uri(tracking)))
    if as_json:
        print_json([finding.plain() for finding in findings])
    else:
        view = columns("", "examined", "found", "what to do")
        styles = {"ok": "green", "look": "bold yellow", "wrong": "bold red"}
        for finding in findings:
            state = Text(finding.state, style=styles[finding.state])
            view.add_row(state, Text(finding.name), Text(finding.detail), Text(finding.do))
        console().print(view)
    if any(finding.state == "wrong" for finding in findings):
        raise typer.Exit(1)
