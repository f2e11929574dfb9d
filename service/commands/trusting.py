"""The verb for the code that a study of other people carries: trust."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from service.commands.app import app, remark, say
from service.commands.options import FLAG, HomeOption, Known
from service.terminal.output import console


@app.command()
def trust(
    name: Known,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask", metavar=FLAG)] = False,
    home: HomeOption = None,
) -> None:
    """Show the code that a study in a home carries, and let commands run it when they read the study."""
    from service.storage import editions
    from service.storage.carried import carried
    from service.storage.home import Home
    from trainables import trusted
    from trainables.source import sha256_of

    found = Home.find(home)
    id, known = editions.latest(found, name), trusted.known()
    new = [(file, text) for file, text in carried(found, id) if sha256_of(file, text) not in known]
    if not new:
        remark(f"{id} carries no code that you have not run before")
        return
    for file, text in new:
        console().print(Text(f"{file}, which {id} carries", style="bold"))
        say(f"{text.rstrip()}\n")
    if yes or typer.confirm("Does it do nothing but what you want? Commands that read the study run it."):
        for file, text in new:
            trusted.trust(sha256_of(file, text))
