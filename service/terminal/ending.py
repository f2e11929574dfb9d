"""What `plan` and `verify` print, and what a run prints at its end."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from search_spaces.words import plural, quoted
from service.analysis.advice import advice
from service.analysis.estimates.power import seeds_sentence
from service.analysis.format import fixed
from service.analysis.headline import headline
from service.analysis.statistics import level_of
from service.analysis.trial_summary import summarize
from service.planning.work_estimate import WorkEstimate
from service.storage.check import Check
from service.storage.history import History
from service.terminal.output import address, columns, console, home_option, labelled, sentence
from service.terminal.trials_table import table
from trainables.spec import SpecError

if TYPE_CHECKING:
    from service.analysis.claims.verdicts import Verdict
    from service.analysis.study_result import StudyResult
    from trainables.training.trained import Facts

COLORS = {"SUPPORTED": "bold green", "REFUTED": "bold red", "INCONCLUSIVE": "bold yellow", "NOT JUDGED": "bold"}
"""The color of each verdict."""
MOST_CLASSES = 10
"""How many names of classes a line lists."""


def plan(history: History, estimate: WorkEstimate) -> None:
    """What a command would run: each trial with what is there and what is missing, and the estimate of the whole."""
    out = console()
    if estimate.work:
        view = columns("#", "trial", "done", "reused", "to train")
        for one in estimate.work:
            view.add_row(*map(Text, (one.label, one.name, *(str(count or "") for count in one.counts))))
        out.print(view)
    for line in estimate.lines(history.edition.id):
        sentence(out, line)
    sentence(out, seeds_sentence(history))


def ending(result: StudyResult, more: str) -> None:
    """How a run ends: the table, the verdicts, and what to do next; `more` is the command for more seeds."""
    answer(result)
    out, edition = console(), result.edition
    home = home_option(result.home)
    page = result.home.study(edition.id).report / "report.html"
    if page.exists():
        labelled(out, "report", str(page), link=address(page))
    else:
        labelled(out, "report", f"not written; locus report {edition.id}{home} tries again")
    labelled(out, "MLflow", f"locus ui {edition.id}{home}")
    if failed := result.history.failed:
        labelled(out, "failed", f"{plural(failed, 'run')}; the same command tries again", "bold red")
        labelled(out, "why", f"locus status {edition.id}{home}, and {result.home.study(edition.id).log}")
    else:
        judged = any(one.word != "NOT JUDGED" for one in result.claims)
        price = f"; verdicts are then tested at {level_of(result.history.looks + 1):.3g}" if judged else ""
        labelled(out, "next", f"{more}   (only the new seeds run{price})")


def answer(result: StudyResult) -> None:
    """The table, what was found in a sentence, and the verdicts."""
    out = console()
    out.print()
    if not out.is_terminal:
        out.print(table(summarize(result.history, alive=False), result.edition))
    take, *more = advice(result) or [""]
    for line in filter(None, (take, headline(result), *more)):
        sentence(out, line)
    found, departure = result.claims, result.departure
    if departure and not departure.told and len(found) > 1:
        label = Text(found[0].label, style=COLORS[found[0].word])
        rest = f": {plural(len(found), 'claim')}. {departure.sentence} The report has the scores that each is about."
        sentence(out, label.append(rest, style="not bold default"))
    else:
        for one in found:
            verdict(one)
    out.print()


def verdict(found: Verdict) -> None:
    """A claim with its verdict."""
    label = Text(found.label, style=COLORS[found.word])
    sentence(console(), label.append(str(found).removeprefix(found.label), style="not bold default"))


def report_written(result: StudyResult, page: Path) -> None:
    """Which study a report is of, where it is, and which other editions there are."""
    out = console()
    labelled(out, "study", result.edition.id)
    labelled(out, "report", str(page), link=address(page))
    if others := result.home.others(result.edition.id):
        labelled(out, "others", ", ".join(others))


def checks(found: Iterable[Check]) -> None:
    """A table of checks."""
    view = columns("", "check", "detail")
    for one in found:
        view.add_row(_mark(one.ok), Text(one.name), Text(one.detail))
    console().print(view)


def _mark(ok: bool) -> Text:
    return Text("ok", style="green") if ok else Text("WRONG", style="bold red")


def versions(sender: str) -> None:
    """The first line of a job. Raises: SpecError for a Python unlike the sender's, or where torch is missing."""
    here = platform.python_version()
    if here.split(".")[:2] != sender.split(".")[:2]:
        raise SpecError(f"the cluster has Python {here}, the sender {sender}; use the same")
    try:
        torch = version("torch")
    except PackageNotFoundError:
        raise SpecError(
            "the cluster has no torch; in a checkout of locus: pip install '.[train]' on its nodes"
        ) from None
    print(f"versions: python {here}, ray {version('ray')}, torch {torch}", flush=True)


def exported(facts: Facts) -> None:
    """Which model is exported, on standard error: its trial, seed and scores, and what its outputs are."""
    scores = ", ".join(f"{name} {fixed(value)}" for name, value in sorted(facts.scores.items(), reverse=True))
    more = ", ..." if len(facts.classes) > MOST_CLASSES else ""
    classes = f"{len(facts.classes)} classes: {', '.join(facts.classes[:MOST_CLASSES])}{more}"
    outputs = classes if facts.classes else "its outputs are numbers"
    out = console(stderr=True)
    sentence(out, f"study {facts.study}, {quoted(facts.trial)}, seed {facts.seed}: {scores}")
    sentence(out, f"{outputs}; images of {facts.image_size[1]} x {facts.image_size[2]} pixels")
