"""Defines the verbs that only show something, and those that work on results. None of them trains."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from service.commands import options
from service.commands.app import INTERRUPTED, app, latest, remark, resolve, say
from service.commands.options import count, flag, option, study_named
from service.terminal import output
from trainables.errors import LocusError, SpecError


@app.command()
def studies(
    papers: Annotated[
        bool, typer.Option("--papers", help="each table and figure of the papers: its studies, or why none")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """List the named studies: question, paper, plan, size at each budget."""
    from service.terminal import catalog

    if papers:
        catalog.papers(as_json)
    else:
        catalog.studies(as_json)


@app.command()
def show(
    name: Annotated[str, study_named("a study, or a node with a kind, such as encoding.peg")],
    budget: options.Budget = None,
    set: options.Set = None,
    preset: options.Preset = None,
    defaults: Annotated[bool, flag("show the values that are defaults, too", options.OUTPUT, "--all")] = False,
    as_json: options.Json = False,
) -> None:
    """Show a study (question, recipe, space or arms, published, claims, budgets, gaps), or what a kind may be."""
    from search_spaces import library
    from service.analysis.study_status import at_budgets
    from service.terminal import views

    if views.is_kind(name):
        views.show_kind(name, as_json)
    elif set or preset:
        views.show(resolve(name, set, preset, budget=budget or "base"), as_json, defaults=defaults)
    elif not budget and name not in library.names() and not library.in_file(name):
        views.show(resolve(name, None, None), as_json, defaults=defaults)
    else:
        study = library.find(name)
        sized = resolve(name, None, None, budget=budget) if budget else study
        views.show(sized, as_json, at_budgets(study, name), defaults=defaults)


@app.command()
def status(
    name: Annotated[str | None, study_named("a study that was run; default: all studies")] = None,
    home: options.HomeOption = None,
    address: options.Address = None,
    as_json: options.Json = False,
) -> None:
    """Show the state of studies, from their journals; with --address the state of a cluster's jobs."""
    if address:  # the newest job of a study, or of each study, that was submitted to a cluster
        from service.execution import jobs

        newest = jobs.of_home(jobs.submissions(address), home) if name is None else [jobs.attach(name, address, home)]
        if name is not None and not as_json:
            say(newest[0].describe())
            return
        rows = [{"study": job.study, "job": job.job, "job_state": job.status(), "home": job.home} for job in newest]
        if as_json:
            output.print_json(rows)
        elif not rows:
            remark(f"no study was submitted to {address} yet")
        else:
            table = output.columns("study", "job", "state", "home")
            for row in rows:
                output.row(table, *(text or "of the cluster" for text in row.values()))
            output.console().print(table)
        return
    from service import api
    from service.storage.home import Home
    from service.terminal import views

    states = api.status(name, home=home)
    if as_json:
        output.print_json([state.plain() for state in states])
    elif name:
        views.status_of_one(states[0], Home.find(home))
    else:
        views.status_of_all(states, Home.find(home))


@app.command()
def compare(
    a: options.Known,
    b: Annotated[str, typer.Argument(help="another study or version that was run", autocompletion=options.study_names)],
    open: Annotated[bool, typer.Option("--open", help="open the page in a browser")] = False,
    home: options.HomeOption = None,
    as_json: options.Json = False,
) -> None:
    """Compare two studies: what differs, and each difference of scores."""
    from service import api
    from service.terminal import views

    compared = api.compare(a, b, home=home)
    if as_json:
        output.print_json(compared.plain())
        return
    page = None
    try:
        page = compared.report()
    except OSError as error:  # the home may be another person's
        typer.echo(f"the page cannot be written: {error}", err=True)
    views.comparison(compared, compared.headline, compared.notes, page)
    if open and page is not None:
        typer.launch(page.as_uri())


@app.command()
def report(
    name: options.Known,
    check: Annotated[bool, flag("exit 1 where a claim is refuted", None, "--check")] = False,
    watch: Annotated[bool, flag("write it again while the study runs, and at its end", None, "--watch")] = False,
    every: Annotated[
        int | None, count("every", "seconds between two pages of --watch; default: 30", None, "SECONDS")
    ] = None,
    open: Annotated[bool, flag("open the page in a browser", None, "--open")] = False,
    home: options.HomeOption = None,
    address: options.Address = None,
) -> None:
    """Write a study's report: a page of HTML, with figures. With --address the study's result is fetched first."""
    from service import api
    from service.terminal import views

    if every is not None and (every < 1 or not watch):
        raise SpecError(f"--every must be of at least 1 s and stand beside --watch, got {every}")

    def show(result: Any, page: Path) -> None:
        views.report_written(result, page)
        if open:
            typer.launch(page.as_uri())

    if watch:
        if address:
            raise SpecError(f"--watch must stand without --address, got {address}")
        result = _watched(name, 30 if every is None else every, show, home=home)
    else:
        if address:
            from service.execution.jobs import attach
            from service.results import SubmittedStudy

            result = SubmittedStudy(**vars(attach(name, address, home))).result()
        else:
            result = api.result(name, home=home)
        api.check_report(result)
        show(result, result.report())
        if address and (option := result.home.option):
            remark(f"export, compare and other commands find the study by{option}")
    for verdict in result.claims:
        views.verdict(verdict)
    if check and any(verdict.word == "REFUTED" for verdict in result.claims):
        raise typer.Exit(1)


def _watched(name: str, every: int, show: Callable[[Any, Path], None], *, home: str | None) -> Any:
    """Writes a study's report every `every` seconds while the study runs, and returns its last result.

    `show` gets the first result and the path of its page.
    """
    from service import api
    from service.results import Result, watch_report

    (home_folder, id), is_first = latest(name, home), True

    def open_result() -> Result:
        result = api.result(id, home=home)
        api.check_report(result)
        return result

    def show_first(result: Result, page: Path) -> None:
        nonlocal is_first
        if is_first:
            show(result, page)
        is_first = False

    try:
        return watch_report(home_folder.study(id), open_result, every, show_first)
    except KeyboardInterrupt:
        remark(f"{id} is no longer watched")
        raise typer.Exit(INTERRUPTED) from None


@app.command()
def record(
    name: Annotated[
        str, study_named("a finished study: NAME (its latest version), NAME@cpu, or the file of your own study")
    ],
    home: options.HomeOption = None,
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


Columns = Annotated[str | None, option(
    "NAMES", "the columns of --latex, a comma between them: name, score (mean ± SD), interval, published, agreement, "
    "difference, difference-interval, p, published-difference, validation, seeds, failed, time, images/s, "
    "device-seconds, parameters, learnt; or all. Default: five, as in a paper",
)]  # fmt: skip
FigureFile = Annotated[Path | None, option(
    "FILE", "write the report's first figure as .pdf or .svg, or the one that FILE is named after: trials.pdf",
)]  # fmt: skip
ModelFile = Annotated[Path | None, option("FILE", "write the best trained model to a file: .pt, .safetensors or .onnx")]
ModelSeed = Annotated[int | None, count("seed", "the model of this seed; default: the highest validation score", None)]
AllSeeds = Annotated[bool, flag(
    "the models of all seeds, to FILE-seed0 and so on; beside --model", None, "--all-seeds",
)]  # fmt: skip


@app.command()
def export(
    name: options.Known,
    csv: Annotated[bool, flag("a row a run, comma-separated", None, "--csv")] = False,
    latex: Annotated[bool, flag("a row a trial, as a LaTeX table (booktabs, array)", None, "--latex")] = False,
    columns: Columns = None,
    figure: FigureFile = None,
    model: ModelFile = None,
    register: Annotated[str | None, option("NAME", "register the best trained model in MLflow under this name")] = None,
    arm: Annotated[str | None, option("NAME", "the model of this arm or row; default: of the best")] = None,
    seed: ModelSeed = None,
    all_seeds: AllSeeds = False,
    ema: Annotated[bool, flag("the model with the moving average of its weights", None, "--ema")] = False,
    to: Annotated[Path | None, option("FILE", "a file for --csv or --latex; default: print to the terminal")] = None,
    force: Annotated[bool, flag("replace the file of --figure or --model", None, "--force")] = False,
    home: options.HomeOption = None,
    tracking: options.Tracking = None,
) -> None:
    """Write a study's numbers as CSV or LaTeX, a figure, or a trained model as a file or to MLflow's registry."""
    from service import api
    from service.storage.home import Home, tracking_uri, without_secrets
    from service.terminal.views import exported

    if sum((csv, latex, *(value is not None for value in (figure, model, register)))) != 1:
        raise SpecError("export must be told one of --csv, --latex, --figure, --model and --register")
    if all_seeds and (model is None or seed is not None):
        raise SpecError("--all-seeds must stand beside --model, and without --seed")
    if columns is not None and not latex:
        raise SpecError(f"--columns must stand beside --latex, got {columns!r} without it")
    if model is None and register is None and (arm or seed is not None or ema or (force and not figure)):
        raise SpecError("--arm, --seed, --ema and --force must stand beside --model or --register, got neither")
    if csv or latex:
        from service.reporting.latex import as_csv

        result = api.result(name, home=home)
        names = [] if columns is None else [column.strip() for column in columns.split(",")]
        text = as_csv(result) if csv else result.latex(names)
        typer.echo(f"study {result.edition.id}", err=True)
        if to is None:
            say(text.rstrip("\n"))
            return
        try:
            to.write_text(text, encoding="utf-8")
        except OSError as error:
            raise LocusError(f"--to must be a file that can be written, got {to} ({error.strerror})") from None
        say(str(to))
        return
    if to is not None:
        raise SpecError(f"--to must stand beside --csv or --latex, got neither; --model {to} writes a model")
    if figure is not None:
        say(str(api.result(name, home=home).figure(figure, force=force)))
        return
    chosen: dict[str, Any] = {"arm": arm, "ema": ema, "look": exported, "home": home, "tracking": tracking}
    seeds = api.result(name, home=home, tracking=tracking).trial(arm).kept_seeds(ema=ema) if all_seeds else []
    if model and seeds:
        for kept in seeds:
            file = model.with_stem(f"{model.stem}-seed{kept}")
            say(str(api.export_model(name, file, force=force, seed=kept, **chosen)))
    elif model is not None:
        say(str(api.export_model(name, model, force=force, seed=seed, **chosen)))
    elif register is not None:
        uri = api.register_model(name, register, seed=seed, **chosen)
        store, screen = tracking_uri(tracking) or Home.find(home).tracking, output.console(stderr=True)
        output.sentence(screen, f"MLflow loads it with MLFLOW_TRACKING_URI={without_secrets(store)}")
        output.sentence(screen, "pyfunc's metadata has the names of its outputs: model.metadata.metadata['classes']")
        say(uri)


@app.command()
def verify(
    name: options.Known,
    repair: Annotated[bool, flag("set damaged files aside, for the next run to make again", None, "--repair")] = False,
    home: options.HomeOption = None,
) -> None:
    """Check that journal, outcomes and files agree; exit 1 if they do not."""
    from service import api
    from service.terminal import views

    if repair:
        for line in api.repair(name, home=home) or ["nothing is damaged"]:
            remark(line)
        return
    checks = api.verify(name, home=home)
    views.checks(checks)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


@app.command()
def forget(
    name: Annotated[str, study_named("an id, such as NAME@cpu, or a NAME that has one version")],
    yes: Annotated[bool, flag("do not ask", None, "--yes", "-y")] = False,
    home: options.HomeOption = None,
    tracking: options.Tracking = None,
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
    home: options.HomeOption = None,
    tracking: options.Tracking = None,
    port: Annotated[int, count("port", "a port of this machine (127.0.0.1)", None)] = 5000,
) -> None:
    """Start MLflow on loopback and print links: trials best first, runs by trial, the report."""
    from service.storage import editions
    from service.storage.home import Home, tracking_uri
    from service.tracking.server import serve

    edition = editions.stored(*latest(name, home)) if name else None
    serve(Home.find(home), edition, port, tracking_uri(tracking), say)
