"""What `studies`, `show`, `status`, `plan` and `verify` print, and what a run prints at its end."""

from __future__ import annotations

import json
import platform
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from search_spaces import library
from search_spaces.study import Ablation, Edition, Study
from search_spaces.words import plural, setting_words, value_words, without_sources
from service.analysis.headline import headline
from service.analysis.power import seeds_sentence
from service.analysis.study_status import all_status, one_status
from service.analysis.trial_summary import summarize
from service.planning.estimate import WorkEstimate, runs_in_words
from service.storage import editions
from service.storage.check import Check
from service.storage.history import History
from service.storage.home import Home
from service.terminal.live import table
from trainables.spec import SpecError

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

WIDE = 200
"""Columns where the output is no terminal."""
COLORS = {"SUPPORTED": "bold green", "REFUTED": "bold red", "INCONCLUSIVE": "bold yellow", "NOT JUDGED": "bold"}
"""The color of each verdict."""


def console() -> Console:
    """Standard output: as wide as the terminal, or wide."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDE)


def _table(*columns: str) -> Table:
    view = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2))
    for place, column in enumerate(columns):
        view.add_column(column, overflow="fold", no_wrap=place == 0)  # a name that is typed must not be cut
    return view


def _row(view: Table, *cells: str) -> None:
    """Adds cells as plain text: rich would read brackets in a name as markup."""
    view.add_row(*map(Text, cells))


def _plain(value: Any) -> None:
    print(json.dumps(value, indent=1))


def studies(as_json: bool) -> None:
    """The named studies."""
    found = [library.find(name) for name in library.names()]
    if as_json:
        _plain(
            [
                {"name": one.name, "question": one.question, "paper": one.paper, "test_sizes": _sizes(one)}
                for one in found
            ]
        )
        return
    view = _table("study", "question", "paper", "plan", "runs at each budget")
    for one in found:
        sizes = ", ".join(f"{budget} {size}" for budget, size in _sizes(one).items())
        _row(view, one.name, one.question, one.paper.partition(",")[0], one.plan.kind, sizes)
    console().print(view)


def _sizes(study: Study) -> dict[str, str]:
    """Trials x seeds at each budget."""
    sizes = {}
    for budget in study.budgets or ["base"]:
        edition = study.at(budget)
        plan = edition.study.plan
        trials = len(plan.arms) if isinstance(plan, Ablation) else plan.trials
        sizes[budget] = f"{trials} x {edition.study.seeds}"
    return sizes


def show(name: str, as_json: bool, own: Edition | None = None) -> None:
    """One study, whole; `own`: with a user's own values on its base."""
    study = library.find(name) if own is None else _with_own(own)
    if as_json:
        _plain(study.plain())
        return
    out = console()
    out.print(_title(study.name, study.question), soft_wrap=True)
    for label, text in (("paper", study.paper), ("expected", study.expected), ("cost", study.cost)):
        if text:
            out.print(Text(f"  {label:10}", style="dim").append(text, style="not dim"), soft_wrap=True)
    plan = study.plan
    if isinstance(plan, Ablation):
        _section(out, "arms", [(arm, _said(values) or "the base") for arm, values in plan.arms.items()])
        out.print(Text(f"  baseline: {plan.baseline}"))
    else:
        spaces = [(path, _said(domain.plain())) for path, domain in plan.space.every()]
        _section(out, "space", spaces)
        first = "; ".join(_said(point) for point in plan.first) or "none"
        out.print(Text(f"  first: {first}; {plan.trials} trials"))
    _section(out, "base recipe", list(_leaves(study.base.plain())))
    budgets = [(name, f"{_said(one.values) or 'as it is'}; {size}") for (name, size), one in _budgets(study)]
    _section(out, "budgets (trials x seeds)", budgets)
    _section(out, "published", [(one.who, str(one)) for one in study.published])
    claims = [(claim.kind, f"{claim}" + (f" ({claim.source})" if claim.source else "")) for claim in study.claims]
    _section(out, "claims", claims)
    _section(out, "gaps to the paper", [("-", gap) for gap in study.gaps])


def _with_own(edition: Edition) -> Study:
    """The study of an edition, its budgets without the values that the user's own replace."""
    budgets = {}
    for name, budget in edition.study.budgets.items():
        left = {path: value for path, value in budget.values.items() if path not in edition.own_paths}
        budgets[name] = budget.model_copy(update={"values": left})
    return edition.study.model_copy(update={"budgets": budgets})


def _title(name: str, question: str) -> Text:
    return Text(name, style="bold").append(f"  {question}", style="not bold")


def _budgets(study: Study) -> list[tuple[tuple[str, str], Any]]:
    return list(zip(_sizes(study).items(), study.budgets.values(), strict=False))


def _section(out: Console, title: str, lines: Sequence[tuple[str, str]]) -> None:
    if not lines:
        return
    out.print(Text(f"\n{title}", style="bold"))
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        out.print(f"  {name:{width}}  {text}", markup=False, soft_wrap=True)


def _leaves(node: Any, path: str = "") -> Any:
    if isinstance(node, dict) and node:
        for name, value in without_sources(node).items():
            yield from _leaves(value, f"{path}.{name}" if path else name)
    else:
        yield path, value_words(node)


def _said(values: dict[str, Any]) -> str:
    return ", ".join(setting_words(values))


def status(name: str | None, home: str | None, as_json: bool) -> None:
    """The state of studies."""
    found = Home.find(home)
    some = [one_status(found, editions.latest(found, name))] if name else all_status(found)
    if as_json:
        _plain([one.plain() for one in some])
        return
    out = console()
    if not some:
        out.print(Text(f"nothing was run in {found.root} yet; locus studies lists what could be"), soft_wrap=True)
        return
    if name:
        _one(out, found, some[0].id)
        return
    view = _table("study", "state", "runs", "trials", "best so far", "last change")
    for one in some:
        stale = f", {one.stale} of other code" if one.stale else ""
        _row(view, one.id, one.state + stale, f"{one.done}/{one.asked}", one.trials, one.best, _ago(one.last))
    out.print(view)


def _one(out: Console, home: Home, id: str) -> None:
    found = one_status(home, id)
    edition = editions.stored(home, id)
    out.print(_title(id, found.question), soft_wrap=True)
    out.print(table(found.rows, edition, every=True))
    out.print(f"{found.state}; {found.done} of {found.asked} runs; last change {_ago(found.last)}")
    if found.stale:
        answers = plural(found.stale, "answer")
        out.print(f"not counted: {answers} of other code; locus plan names the files, locus run --adopt counts them")


def _ago(moment: float | None) -> str:
    if moment is None:
        return "never"
    seconds = max(time.time() - moment, 0)
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return f"{plural(int(seconds // size), unit)} ago"
    return f"{int(seconds)} s ago"


def plan(history: History, estimate: WorkEstimate) -> None:
    """What a command would run: the trials so far, and the estimate of the rest."""
    out = console()
    if history.trials:
        out.print(table(summarize(history, alive=False), history.edition))
    for line in estimate.lines(history.edition.id):
        out.print(Text(line), soft_wrap=True)
    out.print(Text(seeds_sentence(history)), soft_wrap=True)


def ending(result: StudyResult, more: str) -> None:
    """How a run ends: the table, the verdicts, and what to do next; `more` is the command for more seeds."""
    out = console()
    edition = result.edition
    out.print()
    if not out.is_terminal:
        out.print(table(summarize(result.history, alive=False), edition))
    out.print(Text(headline(result)), soft_wrap=True)
    for verdict in result.claims:
        label = Text(verdict.label, style=COLORS[verdict.word])
        out.print(label.append(f" {verdict.claim}. {verdict.why}", style="not bold default"), soft_wrap=True)
    out.print()
    home = "" if result.home.root == Home.find().root else f" --home {result.home.root}"
    _labelled(out, "report", str(result.home.study(edition.id).report / "report.html"))
    _labelled(out, "MLflow", f"locus ui {edition.id}{home}")
    if failed := result.history.failed:
        todo = f"{runs_in_words(failed)}; locus status {edition.id}{home} shows why; the same command tries again"
        _labelled(out, "failed", todo, "bold red")
    else:
        _labelled(out, "next", f"{more}   (only the new seeds run)")


def _labelled(out: Console, label: str, text: str, style: str = "") -> None:
    out.print(Text(f"{label:11}", style=style).append(text, style="not bold default"), soft_wrap=True)


def checks(found: Iterable[Check]) -> None:
    """A table of checks."""
    view = _table("", "check", "detail")
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
        raise SpecError("the cluster has no torch; its nodes need locus[train]") from None
    print(f"versions: python {here}, ray {version('ray')}, torch {torch}", flush=True)


def command(*without: str) -> str:
    """The command that was typed, without some options and their values."""
    kept: list[str] = []
    words = iter(sys.argv[1:])
    for word in words:
        if word in without:
            next(words, None)
        elif word != "--fresh":
            kept.append(word)
    return shlex.join(["locus", *kept])
