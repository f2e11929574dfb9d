"""What a small job asks in a home of a cluster: it trains nothing, prints its answer and ends."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from search_spaces.study import Edition
from service.planning.run_options import RunOptions
from trainables.spec import Spec


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
