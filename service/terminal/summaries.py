"""What `plan`, `verify` and `compare` print, and what a run prints at its end."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from search_spaces.words import plural, quoted
from service.analysis.comparison import Comparison, Match
from service.analysis.format import between, fixed, metric_words, p_text, signed
from service.analysis.headline import details, headline, next_seeds
from service.analysis.multiple_testing import Difference
from service.analysis.power import look_words, seeds_sentence
from service.analysis.statistics import FEWEST
from service.analysis.trial_result import summarize
from service.planning.estimate import WorkEstimate
from service.storage import Check
from service.storage.history import History
from service.terminal.output import address, columns, console, labelled, row, sentence
from service.terminal.tables import trials_table
from trainables.spec import SpecError

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.verdicts import Verdict
    from trainables.training.trained import Facts


COLORS = {"SUPPORTED": "bold green", "REFUTED": "bold red", "INCONCLUSIVE": "bold yellow", "NOT JUDGED": "bold"}
"""The color of each verdict."""
MOST_CLASSES = 10
"""How many names of classes a line lists."""


def plan(history: History, estimate: WorkEstimate) -> None:
    """Prints what a command would run: each trial with what is there and what is missing, and the whole estimate."""
    out = console()
    if estimate.work:
        view = columns("#", "trial", "done", "reused", "to train")
        for work in estimate.work:
            view.add_row(*map(Text, (work.label, work.name, *(str(count or "") for count in work.counts))))
        out.print(view)
    for line in estimate.lines(history.edition.id):
        sentence(out, line)
    sentence(out, seeds_sentence(history))


def ending(result: StudyResult, more: str, larger: str = "") -> None:
    """Prints how a run ended: the table, the verdicts, and what to do next.

    `more`: the command that trains more seeds, without their number; `larger`: that for the next size, if this one
    shows only that all works.
    """
    answer(result)
    out, edition = console(), result.edition
    home = result.home.option
    page = result.home.study(edition.id).report / "report.html"
    if page.exists():
        labelled(out, "report", str(page), link=address(page))
    else:
        labelled(out, "report", f"not written; locus report {edition.id}{home} tries again")
    labelled(out, "MLflow", f"locus ui {edition.id}{home}")
    if failed := result.history.failed:
        labelled(out, "failed", f"{plural(failed, 'run')}; the same command tries again", "bold red")
        labelled(out, "why", f"locus status {edition.id}{home}, and {result.home.study(edition.id).log}")
    elif larger:
        labelled(out, "next", larger)
    elif result.history.seeds < FEWEST:
        labelled(out, "next", f"{more} --seeds {FEWEST}   (a test needs {FEWEST} seeds)")
    elif seeds := next_seeds(result):
        labelled(out, "next", f"{more} --seeds {seeds.seeds}   ({seeds})")
    else:
        most = 2 * result.history.seeds
        labelled(out, "done", f"no open question would be decided by up to {most} seeds, if scores are as measured")
    if not (failed or larger):
        labelled(out, "look", look_words(result.history.looks))


def answer(result: StudyResult) -> None:
    """Prints the table, what was found in a sentence, and the verdicts."""
    out = console()
    out.print()
    if not out.is_terminal:
        out.print(trials_table(summarize(result.history, alive=False), result.edition))
    sentence(out, Text(headline(result), style="bold"))
    for line in details(result):
        sentence(out, line)
    claims, departure = result.claims, result.departure
    if departure and not departure.told and len(claims) > 1:
        label = Text(claims[0].label, style=COLORS[claims[0].word])
        rest = f": {plural(len(claims), 'claim')}. {departure.sentence} The report has the scores that each is about."
        sentence(out, label.append(rest, style="not bold default"))
    else:
        for claim in claims:
            verdict(claim)
    out.print()


def verdict(claim: Verdict) -> None:
    """Prints a claim with its verdict."""
    label = Text(claim.label, style=COLORS[claim.word])
    sentence(console(), label.append(str(claim).removeprefix(claim.label), style="not bold default"))


def report_written(result: StudyResult, page: Path) -> None:
    """Prints which study a report is of, its answer in a sentence, where it is, and which other editions there are."""
    out = console()
    labelled(out, "study", result.edition.id)
    sentence(out, Text(headline(result), style="bold"))
    labelled(out, "report", str(page), link=address(page))
    if others := result.home.others(result.edition.id):
        labelled(out, "others", ", ".join(others))


def checks(results: Iterable[Check]) -> None:
    """Prints a table of checks."""
    view = columns("", "check", "detail")
    for check in results:
        view.add_row(_mark(check.ok), Text(check.name), Text(check.detail))
    console().print(view)


def _mark(ok: bool) -> Text:
    return Text("ok", style="green") if ok else Text("WRONG", style="bold red")


def versions(sender: str) -> None:
    """Prints the first line of a job. Raises: SpecError for a Python unlike the sender's, or where torch is missing."""
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
    """Prints which model is exported, on standard error: its trial, seed and scores, what it takes and what it gives.

    Where the run has a moving average of its weights, also which of both it is.
    """
    which = ", the moving average of its weights" if facts.averaged else ", its weights of the last step"
    weights = which if facts.recipe.optimizer.ema_decay is not None else ""
    scores = ", ".join(f"{name} {fixed(value)}" for name, value in sorted(facts.scores.items(), reverse=True))
    more = ", ..." if len(facts.classes) > MOST_CLASSES else ""
    classes = f"logits of {len(facts.classes)} classes: {', '.join(facts.classes[:MOST_CLASSES])}{more}"
    shape = ", ".join(map(str, facts.image_size))
    out = console(stderr=True)
    sentence(out, f"study {facts.study}, {quoted(facts.trial)}, seed {facts.seed}{weights}: {scores}")
    sentence(out, f"in: images of shape (N, {shape}), float32 from 0 (black) to 1 (white)")
    sentence(out, f"out: shape (N, {facts.recipe.data.outputs}), {classes if facts.classes else 'numbers'}")


def comparison(compared: Comparison, headline: str, notes: list[str], page: Path | None) -> None:
    """Prints a comparison on one page of a terminal. `notes`: sentences below the table; `page`: the same in HTML."""
    out = console()
    labelled(out, "A", compared.a.label, "bold")
    labelled(out, "B", compared.b.label, "bold")
    if compared.changes:
        view = columns("differs", "A", "B")
        view.columns[0].no_wrap = False
        for change in compared.changes:
            row(view, change.what, change.a, change.b)
        out.print(view)
    else:
        sentence(out, "nothing differs in the definitions, the code or the surroundings")
    for warning in compared.warnings:
        sentence(out, Text("note: ", style="yellow").append(warning, style="default"))
    out.print()
    if compared.matches:
        out.print(_table(compared))
    sentence(out, Text(headline, style="bold"))
    for line in notes:
        sentence(out, Text(line, style="dim"))
    if page is not None:
        labelled(out, "page", str(page), link=address(page))


def _table(compared: Comparison) -> Table:
    metric, other = map(metric_words, compared.metrics)
    heads = metric if metric == other else f"A: {metric}; B: {other}"
    view = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1), title=heads)
    view.title_justify = "left"
    view.add_column("trial", overflow="fold", min_width=8)
    for name in ("A", "B", "B - A", "95 % interval", "p (Holm)"):
        view.add_column(name, justify="right", no_wrap=True)
    view.add_column("compared", no_wrap=True)
    for place, match in enumerate(compared.matches):
        view.add_row(*map(Text, _cells_comparing(match, compared.differences.get(place))))
    return view


def _cells_comparing(match: Match, gap: Difference | None) -> tuple[str, ...]:
    difference = (signed(gap.mean), between(gap.interval), p_text(gap.p).removeprefix("= ")) if gap else ("", "", "")
    return (match.name, fixed(match.a.test.mean), fixed(match.b.test.mean), *difference, match.how_words)
