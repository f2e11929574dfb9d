"""The verb that examines: doctor."""

from __future__ import annotations

from collections.abc import Iterable

import typer
from rich.text import Text

from service.commands.app import app
from service.doctor.finding import Finding
from service.planning.run_options import RunOptions
from service.storage.tracking_uri import tracking_uri
from service.terminal import looking
from service.terminal.options import Address, HomeOption, Json, Storage, Tracking
from service.terminal.output import columns, console

STYLES = {"ok": "green", "look": "bold yellow", "wrong": "bold red"}


@app.command()
def doctor(
    address: Address = None,
    home: HomeOption = None,
    tracking: Tracking = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Examine this machine, or a cluster and its nodes: what keeps studies from running well, and what to do."""
    found = list(_examined(address, RunOptions(home=home, storage=storage), tracking_uri(tracking)))
    if as_json:
        looking.print_json([finding.plain() for finding in found])
    else:
        _show(found)
    if any(finding.state == "wrong" for finding in found):
        raise typer.Exit(1)


def _examined(address: str | None, options: RunOptions, tracking: str | None) -> Iterable[Finding]:
    if address is None:
        from service.doctor.here import examine

        return examine(options, tracking)
    from service.doctor.cluster import examine_cluster

    return examine_cluster(address, options.home)


def _show(found: Iterable[Finding]) -> None:
    view = columns("", "examined", "found", "what to do")
    for one in found:
        view.add_row(Text(one.state, style=STYLES[one.state]), Text(one.name), Text(one.detail), Text(one.do))
    console().print(view)
