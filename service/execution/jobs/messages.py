"""What a job and its client say to each other: a question, which trains nothing, and facts in the job's output.

A question travels in job.json. A fact is a line of JSON with a fixed beginning, among the lines for people. Ray takes
no metadata after a job was sent, and these facts are known later: the study's id there, the address of its MLflow run,
how it ended. A refusal and the answer to a question travel in the same way.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from search_spaces.study import Edition
from service.planning.run_options import RunOptions
from trainables.spec import Spec

MARK = "locus-fact "
"""How the line of a fact begins."""


def tell(**facts: Any) -> None:
    """Prints facts. It writes once, so that the line of another thread does not come between."""
    sys.stdout.write(f"{MARK}{json.dumps(facts)}\n")
    sys.stdout.flush()


def told(lines: Iterable[str]) -> dict[str, Any]:
    """The facts among a job's lines; a later one replaces an earlier one of its name. A line that was cut is none."""
    found: dict[str, Any] = {}
    for line in filter(is_fact, lines):
        try:
            found |= json.loads(line.removeprefix(MARK))
        except ValueError:
            continue
    return found


def is_fact(line: str) -> bool:
    """Whether a line is for the client, and not for a person."""
    return line.startswith(MARK)


class Question(Spec):
    """A question in a home; None is the home of that cluster."""

    home: str | None = Field(default=None, kw_only=True)


class More(Question):
    """Asks the driver of a study for what a command wants beyond what it does: seeds, trials, concurrent runs."""

    kind: Literal["more"] = Field(default="more", init=False)
    edition: Edition
    options: RunOptions


class StopNow(Question):
    """Asks the driver of a study to end all runs now."""

    kind: Literal["stop-now"] = Field(default="stop-now", init=False)
    study: str


class EventsOf(Question):
    """Prints the events of a study, a line each. `run`: of one run; `follow`: until no driver runs the study."""

    kind: Literal["events"] = Field(default="events", init=False)
    study: str
    run: str | None = None
    follow: bool = False


class StatusOf(Question):
    """The state of a study, or of all in the home. `adopt`: answers of older code count."""

    kind: Literal["status"] = Field(default="status", init=False)
    study: str | None = None
    adopt: bool = False


class ResultOf(Question):
    """The files that the result of a study needs, as an archive."""

    kind: Literal["result"] = Field(default="result", init=False)
    study: str


class Nodes(Question):
    """What `locus doctor` finds on the nodes."""

    kind: Literal["nodes"] = Field(default="nodes", init=False)


AnyQuestion = Annotated[More | StopNow | EventsOf | StatusOf | ResultOf | Nodes, Field(discriminator="kind")]


class Asked(Spec):
    """The content of a job that asks."""

    question: AnyQuestion
