"""The verb that examines: doctor."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from service.commands.app import app
from service.commands.options import Address, HomeOption, Json, Storage, Tracking
from service.terminal.output import columns, console, counted, print_json
from trainables.errors import SpecError

if TYPE_CHECKING:
    from service.doctor.here import Finding

STYLES = {"ok": "green", "look": "bold yellow", "wrong": "bold red"}


@app.command()
def doctor(
    address: Address = None,
    home: HomeOption = None,
    tracking: Tracking = None,
    storage: Storage = None,
    data: Annotated[
        str | None,
        typer.Option(help="a folder of images: reads each once, and lists those that are damaged", metavar="PATH"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Examine this machine, a cluster and its nodes, or images: what keeps studies from running well, what to do."""
    if data is None:
        found = list(_examined(address, home, storage, tracking))
    elif address is not None:
        raise SpecError("--data must stand without --address: images are read on this machine")
    else:
        found = _of_images(data)
    if as_json:
        print_json([finding.plain() for finding in found])
    else:
        _show(found)
    if any(finding.state == "wrong" for finding in found):
        raise typer.Exit(1)


def _examined(address: str | None, home: str | None, storage: str | None, tracking: str | None) -> Iterable["Finding"]:
    if address is not None:
        from service.doctor.cluster import examine_cluster

        return examine_cluster(address, home)
    from service.doctor.here import examine
    from service.planning.run_options import RunOptions
    from service.storage.tracking_uri import tracking_uri

    return examine(RunOptions(home=home, storage=storage), tracking_uri(tracking))


def _of_images(path: str) -> list["Finding"]:
    """What is found in a folder of images. A terminal shows how many were read."""
    from service.doctor.here import examine_images

    with counted("images") as look:
        return list(examine_images(path, look))


def _show(found: Iterable["Finding"]) -> None:
    view = columns("", "examined", "found", "what to do")
    for one in found:
        view.add_row(Text(one.state, style=STYLES[one.state]), Text(one.name), Text(one.detail), Text(one.do))
    console().print(view)
