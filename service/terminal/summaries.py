"""What `plan`, `verify` and `compare` print, and what a run prints at its end."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from service.analysis.comparison import Comparison
from service.analysis.findings import finding
from service.analysis.format import between, fixed, metric_words, p_text, signed
from service.analysis.headline import details, headline, next_seeds
from service.analysis.power import look_words, seeds_sentence
from service.analysis.statistics import FEWEST
from service.analysis.trial_result import summarize
from service.planning.estimate import WorkEstimate
from service.storage import Check
from service.storage.history import History
from service.storage.home import tracking_uri
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
    out, study, home, history = console(), result.edition.id, result.home, result.history
    page = home.study(study).report / "report.html"
    if page.exists():
        labelled(out, "report", str(page), link=address(page))
    else:
        labelled(out, "report", str(finding("next.report", study=study, home=home.option)))
    elsewhere = result.mlflow_url if result.tracking != tracking_uri() else None
    tracking = shlex.quote(elsewhere) if elsewhere else None
    labelled(out, "MLflow", str(finding("next.ui", study=study, home=home.option, tracking=tracking)))
    if history.failed:
        labelled(out, "failed", str(finding("next.failed", runs=history.failed)), "bold red")
        labelled(out, "why", str(finding("next.why", study=study, home=home.option, log=home.study(study).log)))
        return
    if larger:
        labelled(out, "next", larger)
        return
    if history.seeds < FEWEST:
        labelled(out, "next", str(finding("next.fewest seeds", command=more, seeds=FEWEST)))
    elif seeds := next_seeds(result):
        labelled(out, "next", str(finding("next.more seeds", command=more, seeds=seeds.seeds, why=seeds)))
    else:
        labelled(out, "done", str(finding("next.nothing", seeds=2 * history.seeds)))
    labelled(out, "look", look_words(history.looks))


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
        rest = finding("claims.not judged", claims=len(claims), why=departure.sentence)
        sentence(out, label.append(str(rest), style="not bold default"))
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
        mark = Text("ok", style="green") if check.ok else Text("WRONG", style="bold red")
        view.add_row(mark, Text(check.name), Text(check.detail))
    console().print(view)


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
    weights = None
    if facts.recipe.optimizer.ema_decay is not None:
        weights = finding("part.averaged" if facts.averaged else "part.last step")
    scores = [f"{name} {fixed(value)}" for name, value in sorted(facts.scores.items(), reverse=True)]
    classes: object = "numbers"
    if facts.classes:
        more = ["..."] if len(facts.classes) > MOST_CLASSES else []
        names = [*facts.classes[:MOST_CLASSES], *more]
        classes = finding("part.classes", count=len(facts.classes), names=names)
    out = console(stderr=True)
    model = {"study": facts.study, "trial": facts.trial, "seed": facts.seed, "weights": weights, "scores": scores}
    sentence(out, str(finding("export.model", **model)))
    sentence(out, str(finding("export.in", shape=facts.image_size)))
    sentence(out, str(finding("export.out", outputs=facts.recipe.data.outputs, classes=classes)))


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
        metric, other = map(metric_words, compared.metrics)
        heads = metric if metric == other else f"A: {metric}; B: {other}"
        view = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1), title=heads, title_justify="left")
        view.add_column("trial", overflow="fold", min_width=8)
        for name in ("A", "B", "B - A", "95 % interval", "p (Holm)"):
            view.add_column(name, justify="right", no_wrap=True)
        view.add_column("compared", no_wrap=True)
        for place, match in enumerate(compared.matches):
            gap = compared.differences.get(place)
            test = (signed(gap.mean), between(gap.interval), p_text(gap.p).removeprefix("= ")) if gap else ("", "", "")
            row(view, match.name, fixed(match.a.test.mean), fixed(match.b.test.mean), *test, match.how_words)
        out.print(view)
    sentence(out, Text(headline, style="bold"))
    for line in notes:
        sentence(out, Text(line, style="dim"))
    if page is not None:
        labelled(out, "page", str(page), link=address(page))
