"""The verb that simulates a study."""

from typing import Annotated

import typer

from service.commands.app import app
from service.commands.options import SPEED, Budget, HomeOption, Json, Name, Seeds, Set, Trials, own_values, whole
from service.execution.simulation.constants import MAX_CONCURRENT
from service.terminal.output import console, print_json


@app.command()
def simulate(
    name: Name,
    budget: Budget = None,
    set: Set = None,
    seeds: Seeds = None,
    trials: Trials = None,
    max_concurrent: Annotated[
        int,
        typer.Option(
            help="concurrent runs, such as the GPUs of a cluster",
            metavar="INTEGER",
            parser=whole("max-concurrent"),
            rich_help_panel=SPEED,
        ),
    ] = MAX_CONCURRENT,
    epoch_s: Annotated[
        float | None,
        typer.Option(
            help="seconds that an epoch takes (default: as measured here, or stated)",
            metavar="SECONDS",
            rich_help_panel=SPEED,
        ),
    ] = None,
    home: HomeOption = None,
    as_json: Json = False,
) -> None:
    """Simulate a study with runs that train nothing: its time, its early stopping, and what would be full first."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from service import api
    from service.terminal.simulation import simulation

    parts = (TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*parts, console=console(stderr=True), transient=True) as progress:
        bar = progress.add_task("trials", total=None)
        found = api.simulate(
            name,
            budget=budget,
            set=own_values(set),
            seeds=seeds,
            trials=trials,
            home=home,
            max_concurrent=max_concurrent,
            epoch_s=epoch_s,
            look=lambda done, asked: progress.update(bar, completed=done, total=asked),
        )
    if as_json:
        print_json(found.plain())
    else:
        simulation(found)
