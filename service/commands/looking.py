"""The verbs that only read files: studies, show, status. They import no torch, timm, Ray, Optuna or MLflow."""

from __future__ import annotations

from typing import Annotated

import typer

from search_spaces import library
from service.commands.app import app, resolve, say
from service.storage.home import Home
from service.terminal import looking
from service.terminal.options import Address, AdoptOption, Budget, HomeOption, Json, Preset, Set, study_names


@app.command()
def studies(as_json: Json = False) -> None:
    """List the named studies: question, paper, plan, size at each budget."""
    looking.studies(as_json)


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(help="a study, or a node with a kind, such as encoding.peg", autocompletion=study_names),
    ],
    budget: Budget = None,
    set: Set = None,
    preset: Preset = None,
    as_json: Json = False,
) -> None:
    """Show a study (question, recipe, space or arms, published, claims, budgets, gaps), or what a kind may be."""
    if looking.is_kind(name):
        looking.show_kind(name, as_json)
    elif budget or set or preset:
        looking.show(looking.with_own(resolve(name, set, preset, budget=budget or "base")), as_json)
    else:
        looking.show(library.find(name), as_json)


@app.command()
def status(
    name: Annotated[
        str | None, typer.Argument(help="a study that was run; all without one", autocompletion=study_names)
    ] = None,
    home: HomeOption = None,
    address: Address = None,
    adopt: AdoptOption = False,
    as_json: Json = False,
) -> None:
    """Show the state of studies, from their journals."""
    if address:
        from service.commands.cluster import attached

        say(attached(name, address).describe())
        return
    from service import api

    found = api.status(name, home=home, adopt=adopt)
    if as_json:
        looking.print_json([one.plain() for one in found])
    elif name:
        looking.status_of_one(found[0], Home.find(home))
    else:
        looking.status_of_all(found, Home.find(home))
