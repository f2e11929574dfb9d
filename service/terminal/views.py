"""What the looking verbs print: lists, one study, where things stand, how a command ended."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from search_spaces import library
from search_spaces.study import Ablation, Study
from service.analysis.study_status import all_status, one_status
from service.analysis.trial_rows import rows
from service.planning.estimate import WorkEstimate, runs_in_words
from service.storage import editions
from service.storage.check import Check
from service.storage.history import History
from service.storage.home import Home
from service.terminal.live import table
from trainables.spec import SpecError

if TYPE_CHECKING:
    from service.analysis.study_result import Findings

WIDE = 200
"""Columns where no terminal says how many it has."""
COLORS = {"SUPPORTED": "bold green", "REFUTED": "bold red", "INCONCLUSIVE": "bold yellow"}


def console() -> Console:
    """Standard output: as wide as the terminal, or wide."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDE)


def _table(*columns: str) -> Table:
    view = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2))
    for column in columns:
        view.add_column(column, overflow="fold")
    return view


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
        view.add_row(one.name, one.question, one.paper.partition(",")[0], one.plan.kind, sizes)
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


def show(name: str, as_json: bool) -> None:
    """One study, whole."""
    study = library.find(name)
    if as_json:
        _plain(study.plain())
        return
    out = console()
    out.print(f"[bold]{study.name}[/]  {study.question}")
    for label, text in (("paper", study.paper), ("expected", study.expected), ("cost", study.cost)):
        if text:
            out.print(f"  [dim]{label:10}[/]{text}", soft_wrap=True)
    plan = study.plan
    if isinstance(plan, Ablation):
        _section(out, "arms", [(arm, _said(values) or "the base") for arm, values in plan.arms.items()])
        out.print(f"  baseline: {plan.baseline}")
    else:
        spaces = [(path, _said(domain.plain())) for path, domain in plan.space.every()]
        _section(out, "space", spaces)
        out.print(f"  first: {'; '.join(_said(point) for point in plan.first) or 'none'}; {plan.trials} trials")
    _section(out, "base recipe", list(_leaves(study.base.plain())))
    budgets = [(name, f"{_said(one.values) or 'as it is'}; {size}") for (name, size), one in _budgets(study)]
    _section(out, "budgets (trials x seeds)", budgets)
    _section(out, "published", [(one.who, str(one)) for one in study.published])
    claims = [(claim.kind, f"{claim}" + (f" ({claim.source})" if claim.source else "")) for claim in study.claims]
    _section(out, "claims", claims)
    _section(out, "gaps to the paper", [("-", gap) for gap in study.gaps])


def _budgets(study: Study) -> list[tuple[tuple[str, str], Any]]:
    return list(zip(_sizes(study).items(), study.budgets.values(), strict=False))


def _section(out: Console, title: str, lines: Sequence[tuple[str, str]]) -> None:
    if not lines:
        return
    out.print(f"\n[bold]{title}[/]")
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        out.print(f"  {name:{width}}  {text}", markup=False, soft_wrap=True)


def _leaves(node: Any, path: str = "") -> Any:
    if isinstance(node, dict) and node:
        for name, value in node.items():
            yield from _leaves(value, f"{path}.{name}" if path else name)
    else:
        yield path, json.dumps(node)


def _said(values: dict[str, Any]) -> str:
    return ", ".join(f"{path}={json.dumps(value)}" for path, value in values.items())


def status(name: str | None, home: str | None, as_json: bool) -> None:
    """Where studies stand."""
    found = Home.find(home)
    some = [one_status(found, editions.latest(found, name))] if name else all_status(found)
    if as_json:
        _plain([one.plain() for one in some])
        return
    out = console()
    if not some:
        out.print(f"nothing was run in {found.root} yet; locus studies lists what could be", soft_wrap=True)
        return
    if name:
        _one(out, found, some[0].id)
        return
    view = _table("study", "state", "runs", "trials", "best so far", "last sign of life")
    for one in some:
        view.add_row(one.id, one.state, f"{one.done}/{one.asked}", one.trials, one.best, _ago(one.last))
    out.print(view)


def _one(out: Console, home: Home, id: str) -> None:
    found = one_status(home, id)
    edition = editions.stored(home, id)
    out.print(f"[bold]{id}[/]  {found.question}")
    out.print(table(found.rows, edition))
    out.print(f"{found.state}; {found.done} of {found.asked} runs; last sign of life {_ago(found.last)}")


def _ago(moment: float | None) -> str:
    if moment is None:
        return "never"
    seconds = max(time.time() - moment, 0)
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' * (count > 1)} ago"
    return f"{int(seconds)} s ago"


def plan(history: History, estimate: WorkEstimate) -> None:
    """What a command would run: the trials so far, and the estimate of the rest."""
    out = console()
    if history.trials:
        out.print(table(rows(history, alive=False), history.edition))
    for line in estimate.lines(history.edition.id):
        out.print(line, soft_wrap=True)


def ending(result: Findings, answer: str, more: str) -> None:
    """How a run ends: table, answer, verdicts, and what to do next; `more` is the command for more seeds."""
    out = console()
    edition = result.edition
    out.print()
    if not out.is_terminal:
        out.print(table(rows(result.history, alive=False), edition))
    out.print(answer, soft_wrap=True)
    for verdict in result.claims:
        out.print(
            f"[{COLORS[verdict.word]}]{verdict.word}[/] {str(verdict).removeprefix(verdict.word).lstrip(': ')}",
            soft_wrap=True,
        )
    out.print()
    home = "" if result.home.root == Home.find().root else f" --home {result.home.root}"
    out.print(f"report     {result.home.study(edition.id).report / 'report.html'}", soft_wrap=True)
    out.print(f"MLflow     locus ui {edition.id}{home}", soft_wrap=True)
    if failed := result.history.failed:
        said = f"{runs_in_words(failed)}; locus status {edition.id}{home} says why, the same command tries again"
        out.print(f"[bold red]failed[/]     {said}", soft_wrap=True)
    else:
        out.print(f"next       {more}   (only the new seeds run)", soft_wrap=True)
    budget = edition.study.budgets.get(edition.budget)
    if budget and budget.gap:
        out.print(f"note       {budget.gap}", soft_wrap=True)


def checks(found: list[Check]) -> None:
    """A table of checks."""
    view = _table("", "check", "detail")
    for one in found:
        view.add_row("[green]ok[/]" if one.ok else "[bold red]WRONG[/]", one.name, one.detail)
    console().print(view)


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
