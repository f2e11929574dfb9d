"""The verbs that work on what was found: report, record, export, verify, forget, ui."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from service.commands.app import INTERRUPTED, app, remark, say
from service.commands.options import Address, HomeOption, Known, Tracking, count, flag, option, study_named
from trainables.errors import LocusError, SpecError

EVERY_S = 30
"""Seconds between two pages of a study that is watched."""


@app.command()
def report(
    name: Known,
    check: Annotated[bool, flag("exit 1 where a claim is refuted", None, "--check")] = False,
    watch: Annotated[bool, flag("write it again while the study runs, and at its end", None, "--watch")] = False,
    every: Annotated[
        int | None, count("every", "seconds between two pages of --watch; default: 30", None, "SECONDS")
    ] = None,
    open: Annotated[bool, flag("open the page in a browser", None, "--open")] = False,
    home: HomeOption = None,
    address: Address = None,
) -> None:
    """Write a study's report: a page of HTML, with figures. With --address the study's result is fetched first."""
    from service import api
    from service.terminal import summaries

    if every is not None and (every < 1 or not watch):
        raise SpecError(f"--every must be of at least 1 s and stand beside --watch, got {every}")

    def show(result: Any, page: Path) -> None:
        summaries.report_written(result, page)
        if open:
            typer.launch(page.as_uri())

    if watch:
        if address:
            raise SpecError(f"--watch must stand without --address, got {address}")
        result = _watched(name, EVERY_S if every is None else every, show, home=home)
    else:
        result = _fetched(name, address, home) if address else api.result(name, home=home)
        api.check_report(result)
        show(result, result.report())
        if address and (option := result.home.option):
            remark(f"export, compare and other commands find the study by{option}")
    for verdict in result.claims:
        summaries.verdict(verdict)
    if check and any(verdict.word == "REFUTED" for verdict in result.claims):
        raise typer.Exit(1)


def _fetched(name: str, address: str, home: str | None) -> Any:
    from service.execution.jobs import attach
    from service.results import SubmittedStudy

    return SubmittedStudy(**vars(attach(name, address, home))).result()


def _watched(name: str, every: int, show: Callable[[Any, Path], None], *, home: str | None) -> Any:
    """Writes the report of a study as long as it runs; its last result. `show` gets the first page."""
    from service import api
    from service.results import Result, watch_report
    from service.storage import editions
    from service.storage.home import Home

    where = Home.find(home)
    id = editions.latest(where, name)
    pages = 0

    def opened() -> Result:
        result = api.result(id, home=home)
        api.check_report(result)
        return result

    def shown(result: Result, page: Path) -> None:
        nonlocal pages
        pages += 1
        if pages == 1:
            show(result, page)

    try:
        return watch_report(where.study(id), opened, every, shown)
    except KeyboardInterrupt:
        remark(f"{id} is no longer watched")
        raise typer.Exit(INTERRUPTED) from None


@app.command()
def record(
    name: Annotated[
        str, study_named("a finished study: NAME (its latest edition), NAME@cpu, or the file of your own study")
    ],
    home: HomeOption = None,
) -> None:
    """Save the results of a finished study as JSON beside the study's file; show, studies and the report read it."""
    from search_spaces.record import read
    from service import api
    from service.analysis.study_status import paragraphs

    path = api.record(name, home=home, note=remark)
    if recorded := read(path):
        for text in paragraphs(recorded):
            remark(text)
    say(str(path))


@app.command()
def export(
    name: Known,
    csv: Annotated[bool, flag("a row a run, comma-separated", None, "--csv")] = False,
    latex: Annotated[bool, flag("a row a trial, as a LaTeX table (booktabs, array)", None, "--latex")] = False,
    columns: Annotated[
        str | None,
        option(
            "NAMES",
            "the columns of --latex, a comma between them: name, score (mean ± SD), interval, "
            "published, agreement, difference, difference-interval, p, published-difference, validation, seeds, "
            "failed, time, images/s, device-seconds, parameters, learnt; or all. Default: five, as in a paper",
        ),
    ] = None,
    model: Annotated[
        Path | None, option("FILE", "write the best trained model to a file: .pt, .safetensors or .onnx")
    ] = None,
    register: Annotated[str | None, option("NAME", "register the best trained model in MLflow under this name")] = None,
    arm: Annotated[str | None, option("NAME", "the model of this arm or row; default: of the best")] = None,
    seed: Annotated[
        int | None, count("seed", "the model of this seed; default: the highest validation score", None)
    ] = None,
    all_seeds: Annotated[
        bool, flag("the models of all seeds, to FILE-seed0 and so on; beside --model", None, "--all-seeds")
    ] = False,
    ema: Annotated[bool, flag("the model with the moving average of its weights", None, "--ema")] = False,
    to: Annotated[Path | None, option("FILE", "a file for --csv or --latex; default: print to the terminal")] = None,
    force: Annotated[bool, flag("replace the file of --model", None, "--force")] = False,
    home: HomeOption = None,
    tracking: Tracking = None,
) -> None:
    """Write a study's numbers as CSV or LaTeX, or a trained model as a file or to MLflow's model registry."""
    from service import api
    from service.storage.home import Home, tracking_uri, without_secrets
    from service.terminal.output import console, sentence
    from service.terminal.summaries import exported

    if sum((csv, latex, model is not None, register is not None)) != 1:
        raise SpecError("export must be told one of --csv, --latex, --model and --register")
    if all_seeds and (model is None or seed is not None):
        raise SpecError("--all-seeds must stand beside --model, and without --seed")
    if columns is not None and not latex:
        raise SpecError(f"--columns must stand beside --latex, got {columns!r} without it")
    if csv or latex:
        if arm or seed is not None or ema or force:
            raise SpecError("--arm, --seed, --ema and --force must stand beside --model or --register, got neither")
        from service.reporting.latex import as_csv

        result = api.result(name, home=home)
        _export_numbers(result, as_csv(result) if csv else result.latex(_names(columns)), to)
        return
    if to is not None:
        raise SpecError(f"--to must stand beside --csv or --latex, got neither; --model {to} writes a model")
    where: dict[str, Any] = {"home": home, "tracking": tracking}
    which: dict[str, Any] = {"arm": arm, "ema": ema, "look": exported}
    if all_seeds and model and (seeds := api.result(name, **where).trial(arm).kept_seeds(ema=ema)):
        for one in seeds:
            file = model.with_stem(f"{model.stem}-seed{one}")
            say(str(api.export_model(name, file, force=force, seed=one, **which, **where)))
    elif model is not None:
        say(str(api.export_model(name, model, force=force, seed=seed, **which, **where)))
    elif register is not None:
        uri = api.register_model(name, register, seed=seed, **which, **where)
        store = tracking_uri(tracking) or Home.find(home).tracking
        sentence(console(stderr=True), f"MLflow loads it with MLFLOW_TRACKING_URI={without_secrets(store)}")
        sentence(
            console(stderr=True), "pyfunc's metadata has the names of its outputs: model.metadata.metadata['classes']"
        )
        say(uri)


def _names(columns: str | None) -> list[str]:
    return [] if columns is None else [name.strip() for name in columns.split(",")]


def _export_numbers(result: Any, text: str, to: Path | None) -> None:
    """Prints the numbers of a study as CSV or LaTeX, or writes them to a file."""
    typer.echo(f"study {result.edition.id}", err=True)
    if to is None:
        say(text.rstrip("\n"))
        return
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LocusError(f"--to must be a file that can be written, got {to} ({error.strerror})") from None
    say(str(to))


@app.command()
def verify(
    name: Known,
    repair: Annotated[bool, flag("set damaged files aside, for the next run to make again", None, "--repair")] = False,
    home: HomeOption = None,
) -> None:
    """Check that journal, outcomes and files agree; exit 1 if they do not."""
    from service import api
    from service.terminal import summaries

    if repair:
        for line in api.repair(name, home=home) or ["nothing is damaged"]:
            remark(line)
        return
    checks = api.verify(name, home=home)
    summaries.checks(checks)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


@app.command()
def forget(
    name: Annotated[str, study_named("an id, such as NAME@cpu, or a NAME that has one edition")],
    yes: Annotated[bool, flag("do not ask", None, "--yes", "-y")] = False,
    home: HomeOption = None,
    tracking: Tracking = None,
) -> None:
    """Remove a study: its folder, its MLflow runs, and the answers that no other study uses."""
    from search_spaces.words import plural
    from service import api

    forgettable = api.forgettable(name, home=home, tracking=tracking)
    for line in forgettable.lines():
        remark(line)
    try:
        sure = yes or typer.confirm("Remove all this?")
    except typer.Abort:  # Ctrl-C, or an input that has ended
        remark("\nnothing was removed; --yes removes without asking")
        raise typer.Exit(INTERRUPTED) from None
    if sure and (stayed := forgettable.remove()):
        remark(f"kept: {plural(stayed, 'answer')} that came into use since")
    remark(f"{forgettable.id} is forgotten" if sure else "nothing was removed")


@app.command()
def ui(
    name: Annotated[str | None, study_named("a study that was run; default: all studies")] = None,
    home: HomeOption = None,
    tracking: Tracking = None,
    port: Annotated[int, count("port", "a port of this machine (127.0.0.1)", None)] = 5000,
) -> None:
    """Start MLflow on loopback and print links: trials best first, runs by trial, the report."""
    from service.storage import editions
    from service.storage.home import Home, tracking_uri
    from service.tracking.server import serve

    home_folder = Home.find(home)
    edition = editions.stored(home_folder, editions.latest(home_folder, name)) if name else None
    serve(home_folder, edition, port, tracking_uri(tracking), say)
