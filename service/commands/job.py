"""What a job of a cluster runs: a study that was submitted, or a question about the studies of a home."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from search_spaces.study import Edition
from service.commands.app import say
from service.commands.running import run_resolved
from service.execution.jobs import archive
from service.execution.jobs.messages import AnyQuestion, Asked, EventsOf, More, Nodes, ResultOf, StatusOf, StopNow, tell
from service.planning.run_options import RunOptions
from service.storage import editions
from service.storage.control import Control
from service.storage.home import Home
from service.terminal import ending
from trainables.spec import LocusError
from trainables.trusted import named


def carry_out(file: Path) -> None:
    """Runs what a job.json says. A refusal is a fact for the client, too. Raises: Exit."""
    sent = json.loads(file.read_text())
    try:
        if "question" in sent:
            tell(answer=answer(Asked.read({"question": sent["question"]}).question))
        else:
            ending.versions(sent["python"])
            options = RunOptions.read(sent["options"] | {"address": "auto"})
            with named():
                edition = Edition.read(sent["edition"])
            run_resolved(edition, options, fresh=sent["fresh"], detail="all", tell=tell)
    except LocusError as error:
        tell(refused=str(error))
        raise typer.Exit(2) from None


def answer(question: AnyQuestion) -> Any:
    """The answer to a question, as plain JSON values; events are printed as they come.

    Raises: LocusError if it has none.
    """
    home = Home.find(question.home)
    match question:
        case More():
            from service.steering import change

            return str(change(question.edition, home, question.options))
        case StopNow():
            from service.steering import request

            return request(home, question.study, Control(stop="now"))
        case EventsOf():
            return _print_events(home, question)
        case StatusOf():
            return _status(home, question)
        case ResultOf():
            editions.stored(home, question.study)
            return base64.b64encode(archive.pack(home, question.study)).decode()
        case Nodes():
            from service.doctor.cluster import examine_nodes

            return [finding.plain() for finding in examine_nodes(home)]


def _print_events(home: Home, question: EventsOf) -> bool:
    from service.terminal.event_log import events

    id = editions.latest(home, question.study)
    for line in events(home, id, run=question.run, follow=question.follow):
        say(line)
    return True


def _status(home: Home, question: StatusOf) -> dict[str, Any]:
    from service import api

    found = api.status(question.study, home=str(home.root), adopt=question.adopt)
    definition = editions.stored(home, found[0].id).plain() if question.study else None
    return {"home": str(home.root), "studies": [asdict(one) for one in found], "edition": definition}
