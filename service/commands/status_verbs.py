"""The verbs that only read files. They import no torch, timm, Ray, Optuna or MLflow."""

from typing import Annotated

import typer

from service.commands.app import app, resolve
from service.commands.options import (
    OUTPUT,
    Address,
    Budget,
    HomeOption,
    Json,
    Known,
    Preset,
    Set,
    flag,
    study_named,
    study_names,
)
from service.terminal.output import print_json


@app.command()
def studies(
    papers: Annotated[
        bool, typer.Option("--papers", help="each table and figure of the papers: its studies, or why none")
    ] = False,
    as_json: Json = False,
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
    budget: Budget = None,
    set: Set = None,
    preset: Preset = None,
    defaults: Annotated[bool, flag("show the values that are defaults, too", OUTPUT, "--all")] = False,
    as_json: Json = False,
) -> None:
    """Show a study (question, recipe, space or arms, published, claims, budgets, gaps), or what a kind may be."""
    from search_spaces import library
    from service.analysis.study_status import at_budgets
    from service.terminal import tables

    if tables.is_kind(name):
        tables.show_kind(name, as_json)
    elif set or preset:
        tables.show(resolve(name, set, preset, budget=budget or "base"), as_json, defaults=defaults)
    elif not budget and name not in library.names() and not library.in_file(name):
        tables.show(resolve(name, None, None), as_json, defaults=defaults)
    else:
        study = library.find(name)
        sized = resolve(name, None, None, budget=budget) if budget else study
        tables.show(sized, as_json, at_budgets(study, name), defaults=defaults)


@app.command()
def status(
    name: Annotated[str | None, study_named("a study that was run; default: all studies")] = None,
    home: HomeOption = None,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Show the state of studies, from their journals; with --address the state of a cluster's jobs."""
    if address:
        from service.commands.remote import show_jobs

        show_jobs(name, address, home, as_json=as_json)
        return
    from service import api
    from service.storage.home import Home
    from service.terminal import tables

    states = api.status(name, home=home)
    if as_json:
        print_json([state.plain() for state in states])
    elif name:
        tables.status_of_one(states[0], Home.find(home))
    else:
        tables.status_of_all(states, Home.find(home))


@app.command()
def compare(
    a: Known,
    b: Annotated[str, typer.Argument(help="another study or edition that was run", autocompletion=study_names)],
    open: Annotated[bool, typer.Option("--open", help="open the page in a browser")] = False,
    home: HomeOption = None,
    as_json: Json = False,
) -> None:
    """Compare two studies: what differs, and each difference of scores."""
    from service import api
    from service.terminal import summaries

    compared = api.compare(a, b, home=home)
    if as_json:
        print_json(compared.plain())
        return
    page = None
    try:
        page = compared.report()
    except OSError as error:  # the home may be another person's
        typer.echo(f"the page cannot be written: {error}", err=True)
    summaries.comparison(compared, compared.headline, compared.notes, page)
    if open and page is not None:
        typer.launch(page.as_uri())
