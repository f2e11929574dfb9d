"""The command: one verb, one function. Mistakes are one line and exit code 2; a bug keeps its traceback.

The verbs that only read (`--help`, `studies`, `show`, `status`) import no torch, timm, Ray, Optuna or MLflow. Neither
does a misspelt word.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from service.planning.run_options import RunOptions
from service.storage.home import Home, tracking_uri
from service.terminal import views
from service.terminal.options import (
    Address,
    AdoptOption,
    As,
    Budget,
    Compile,
    Device,
    Download,
    Fresh,
    HomeOption,
    Hours,
    Json,
    Known,
    LoaderWorkers,
    MaxConcurrent,
    Name,
    Preset,
    RunsPerGpu,
    Seeds,
    Set,
    Threads,
    Tracking,
    Trials,
    Workers,
    own_values,
)  # fmt: skip
from trainables.spec import LocusError, SpecError

INTERRUPTED = 130
MISTAKE = 2

app = typer.Typer(
    name="locus",
    help="Which position encoding, with which numbers, and how sure are we?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def studies(as_json: Json = False) -> None:
    """List the named studies: question, paper, plan, size at each budget."""
    views.studies(as_json)


@app.command()
def show(name: Name, set: Set = None, preset: Preset = None, as_json: Json = False) -> None:
    """Show one study: question, recipe, space or arms, published numbers, claims, budgets, gaps."""
    own = _edition(name, set, preset, budget="base") if set or preset else None
    views.show(name, as_json, own)


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="a study that was run; all without one")] = None,
    home: HomeOption = None,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Show the state of studies, from their journals."""
    if address:
        _say(_attached(name, address).describe())
        return
    views.status(name, home, as_json)


@app.command()
def plan(
    name: Name,
    budget: Budget = None,
    set: Set = None,
    preset: Preset = None,
    seeds: Seeds = None,
    trials: Trials = None,
    edition: As = "",
    home: HomeOption = None,
    max_concurrent: MaxConcurrent = None,
    threads: Threads = 1,
    workers: Workers = 0,
    device: Device = "auto",
    runs_per_gpu: RunsPerGpu = "1",
    compile: Compile = False,
    fresh: Fresh = False,
) -> None:
    """Print what would run, what is there already and why, time and memory. Writes nothing."""
    from service import api

    resolved = _edition(name, set, preset, budget=budget, seeds=seeds, trials=trials, edition=edition)
    options = RunOptions(
        home=home, max_concurrent=max_concurrent, threads=threads, workers=workers, device=device,
        runs_per_gpu=runs_per_gpu, compile=compile,
    )  # fmt: skip
    views.plan(*api.plan(resolved, options, fresh=fresh))


@app.command()
def run(
    name: Name,
    budget: Budget = None,
    set: Set = None,
    preset: Preset = None,
    seeds: Seeds = None,
    trials: Trials = None,
    edition: As = "",
    home: HomeOption = None,
    tracking: Tracking = None,
    max_concurrent: MaxConcurrent = None,
    threads: Threads = 1,
    workers: Workers = 0,
    loader_workers: LoaderWorkers = None,
    device: Device = "auto",
    runs_per_gpu: RunsPerGpu = "1",
    compile: Compile = False,
    hours: Hours = None,
    adopt: AdoptOption = False,
    download: Download = False,
    fresh: Fresh = False,
) -> None:
    """Run what is missing of a study; the same command again resumes, extends or just reports."""
    options = RunOptions(
        home=home,
        tracking=tracking,
        max_concurrent=max_concurrent,
        threads=threads,
        workers=workers,
        loader_workers=loader_workers,
        device=device,
        runs_per_gpu=runs_per_gpu,
        compile=compile,
        hours=hours,
        adopt=adopt,
        download=download,
    )
    resolved = _edition(name, set, preset, budget=budget, seeds=seeds, trials=trials, edition=edition)
    _run(resolved, options, fresh=fresh)


def _edition(name: str, own: Set, preset: Preset, **size: Any) -> Any:
    from service import api

    return api.resolve(name, set=own_values(own), preset=preset, **size)


def _run(resolved: Any, options: RunOptions, *, fresh: bool = False) -> None:
    from service import api

    try:
        result = api.here(resolved, options, fresh=fresh)
    except KeyboardInterrupt:
        again = views.command() if options.address == "local" else "the same locus submit"
        _say(f"stopped; what is finished is kept. To continue: {again}")
        raise typer.Exit(INTERRUPTED) from None
    views.ending(result, f"{views.command('--seeds')} --seeds {result.history.seeds + 2}")
    if result.history.failed:
        raise typer.Exit(1)


@app.command()
def report(
    name: Known,
    check: Annotated[bool, typer.Option("--check", help="exit 1 where a claim is refuted")] = False,
    home: HomeOption = None,
) -> None:
    """Write a study's report: HTML and Markdown, with figures."""
    from service import api

    result = api.result(name, home=home)
    api.check_report(result)
    _say(str(result.report()))
    for verdict in result.claims:
        _say(str(verdict))
    if check and any(verdict.word == "REFUTED" for verdict in result.claims):
        raise typer.Exit(1)


@app.command()
def rerun(key: Annotated[str, typer.Argument(help="a run's key, or its beginning")], home: HomeOption = None) -> None:
    """Train one run again, without Ray, and compare it number by number with its outcome."""
    from service.execution.rerun import rerun as again

    done = again(Home.find(home), key, _say)
    for file in done.changed:
        _say(f"{file} changed since")
    for gap in done.differences:
        _say(f"epoch {gap.epoch}: {gap.name} was {gap.before}, is {gap.now}")
    _say(f"{done.key}: {done.compared} numbers compared, {len(done.differences)} differ")
    if not done.equal:
        raise typer.Exit(1)


@app.command()
def verify(name: Known, home: HomeOption = None, tracking: Tracking = None) -> None:
    """Check that journal, outcomes, MLflow and files agree; exit 1 where they do not."""
    from service import api

    checks = api.verify(name, home=home, tracking=tracking)
    views.checks(checks)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


@app.command()
def ui(
    name: Annotated[str | None, typer.Argument(help="a study that was run; all without one")] = None,
    home: HomeOption = None,
    tracking: Tracking = None,
    port: Annotated[int, typer.Option(help="a port of loopback")] = 5000,
) -> None:
    """Start MLflow on loopback and print links: trials best first, runs by trial, the report."""
    from service.storage import editions
    from service.tracking.server import serve

    found = Home.find(home)
    edition = editions.stored(found, editions.latest(found, name)) if name else None
    serve(found, edition, port, tracking_uri(tracking), _say)


@app.command()
def submit(
    name: Name,
    address: Annotated[str, typer.Option(help="a Ray cluster's job address, http://head:8265")],
    home: Annotated[
        str | None, typer.Option(help="the driver's home there; may be left out with LOCUS_HOME there")
    ] = None,
    budget: Budget = None,
    set: Set = None,
    preset: Preset = None,
    seeds: Seeds = None,
    trials: Trials = None,
    edition: As = "",
    tracking: Tracking = None,
    max_concurrent: MaxConcurrent = None,
    threads: Threads = 1,
    workers: Workers = 0,
    loader_workers: LoaderWorkers = None,
    device: Device = "auto",
    runs_per_gpu: RunsPerGpu = "1",
    compile: Compile = False,
    hours: Hours = None,
    adopt: AdoptOption = False,
    download: Download = False,
    fresh: Fresh = False,
) -> None:
    """Submit a study to a Ray cluster and follow until its plan is printed there."""
    from service.execution import jobs

    options = RunOptions(
        home=home,
        tracking=tracking,
        max_concurrent=max_concurrent,
        threads=threads,
        workers=workers,
        loader_workers=loader_workers,
        device=device,
        runs_per_gpu=runs_per_gpu,
        compile=compile,
        hours=hours,
        adopt=adopt,
        download=download,
    )
    resolved = _edition(name, set, preset, budget=budget, seeds=seeds, trials=trials, edition=edition)
    submission = jobs.submit(resolved, options, address, fresh=fresh, say=_say)
    _say(submission.describe())


@app.command()
def logs(
    name: Known,
    address: Annotated[str, typer.Option(help="a Ray cluster's job address, http://head:8265")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="continue until the job ends")] = False,
) -> None:
    """Print the output of a submitted study."""
    for line in _attached(name, address).logs(follow=follow):
        _say(line)


@app.command()
def stop(
    name: Known, address: Annotated[str, typer.Option(help="a Ray cluster's job address, http://head:8265")]
) -> None:
    """Stop a submitted study: each run ends at its next report; submitting again continues."""
    submission = _attached(name, address)
    submission.stop()
    _say(submission.describe())


def _attached(name: str | None, address: str) -> Any:
    from service.execution import jobs

    if name is None:
        raise SpecError("a study's name must be given with --address")
    return jobs.attach(name, address)


def _say(line: str) -> None:
    typer.echo(line)


@app.command(hidden=True)
def job(file: Path) -> None:
    """Run the edition and the options of a study.json that `submit` sent: what a cluster's job runs."""
    from search_spaces.study import Edition

    sent = json.loads(file.read_text())
    views.versions(sent["python"])
    options = RunOptions.read(sent["options"] | {"address": "auto"})
    _run(Edition.read(sent["edition"]), options, fresh=sent.get("fresh", False))


def main() -> None:
    """The entry point of `locus` and of `python -m service`."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        code = app(standalone_mode=False, prog_name="locus") or 0
    except typer.Exit as exit:
        code = exit.exit_code
    except typer.TyperException as error:
        code = _mistake(" ".join(error.format_message().split()))
    except LocusError as error:
        code = _mistake(str(error))
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.stdout.flush()
    sys.exit(code)


def _mistake(sentence: str) -> int:
    typer.echo(f"locus: {sentence}", err=True)
    return MISTAKE
