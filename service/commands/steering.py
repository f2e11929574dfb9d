"""The verbs for a study that runs, here or on a cluster: logs, stop."""

from typing import Annotated

import typer

from service.commands.app import app, remark, say
from service.commands.cluster import attached
from service.commands.options import FLAG, Address, HomeOption, Known


@app.command()
def logs(
    name: Known,
    run: Annotated[
        str | None, typer.Option(help="one run alone: its key, or row and seed as 3.0", metavar="RUN")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="continue until the study ends", metavar=FLAG)] = False,
    home: HomeOption = None,
    address: Address = None,
) -> None:
    """Print what has happened in a study, a line for every event; or the output of a submitted one."""
    if address:
        submission = attached(name, address)
        for line in submission.events(run, follow=follow) if run else submission.logs(follow=follow):
            say(line)
        return
    from service.storage import editions
    from service.storage.home import Home
    from service.terminal.event_log import events

    found = Home.find(home)
    for line in events(found, editions.latest(found, name), run=run, follow=follow):
        say(line)


@app.command()
def stop(
    name: Known,
    now: Annotated[bool, typer.Option("--now", help="do not wait for the end of an epoch", metavar=FLAG)] = False,
    home: HomeOption = None,
    address: Address = None,
) -> None:
    """Stop a study that runs, here or on a cluster: each run ends after its epoch; the same command continues."""
    if address:
        submission = attached(name, address)
        if now:
            submission.stop_now()
        else:
            submission.stop()
        say(submission.describe())
        return
    from service.steering import request
    from service.storage import editions
    from service.storage.control import Control
    from service.storage.home import Home

    found = Home.find(home)
    id = editions.latest(found, name)
    does = request(found, id, Control(stop="now" if now else "after the epoch"))
    remark(f"the driver of {id} {does}")
