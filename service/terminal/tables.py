"""What `show` and `status` print: studies and trials as tables."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from search_spaces import library
from search_spaces.study import Ablation, Edition, Study, Tuning
from search_spaces.words import clock, configuration, listed, plural, setting_words, space_words, value_words
from service.analysis.format import metric_words
from service.storage import editions
from service.terminal import catalog
from service.terminal.output import (
    NARROW,
    address,
    columns,
    console,
    labelled,
    print_json,
    row,
    section,
    sentence,
    title,
)
from trainables.recipe import kinds

if TYPE_CHECKING:
    from service.analysis.study_status import StudyStatus
    from service.analysis.trial_result import TrialSummary
    from service.storage.home import Home

STYLES = {"done": "green", "running": "cyan", "stopped": "yellow", "diverged": "magenta", "failed": "red"}


def trials_table(trials: list[TrialSummary], edition: Edition, rows: int | None = None) -> RenderableType:
    """Returns the trials, or at most so many of them."""
    view = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1))
    metric = edition.study.score.metric
    for name, justify in (("#", "right"), ("trial", "left"), ("seeds", "right"), ("epoch", "right"), (metric, "left")):
        view.add_column(name, justify=justify, no_wrap=name != "trial", overflow="fold")  # type: ignore[arg-type]
    view.add_column("state", overflow="fold")
    kept = trials if rows is None else shown(trials, rows)
    for trial in kept:
        style = "bold green" if trial.best else STYLES.get(trial.state.split()[0].rstrip(",:"), "")
        state = Text(f"{trial.state}  {trial.mark}".rstrip(), style=style)
        cells = (trial.label, trial.name, f"{trial.done}/{trial.asked}", f"{trial.epoch}/{trial.epochs}", trial.score)
        view.add_row(*map(Text, cells), state)
    return Group(view, *(Text(line, style="dim") for line in legend(kept, trials, edition)))


def legend(rows: list[TrialSummary], trials: list[TrialSummary], edition: Edition) -> list[str]:
    """Returns what the numbers and signs of a table mean, if they occur, and how many of its rows are not shown."""
    parts = []
    if any(row.score for row in rows):
        parts.append(f"{edition.study.score.metric}: {metric_words(edition.study.score.metric)}, mean over seeds")
    if any("+-" in row.score for row in rows):
        parts.append("+-: standard deviation over seeds")
    if confirmed := next((row for row in rows if row.label.startswith("c")), None):
        parts.append(f"{confirmed.label}: point {confirmed.label[1:]} again, on fresh seeds")
    if tuning := next((row for row in rows if row.label.startswith("t")), None):
        parts.append(f"{tuning.label}: a trial that tunes an arm, on a seed of its own")
    if parent := next((row for row in rows if row.label.startswith("p")), None):
        parts.append(f"{parent.label}: a run that others start from")
    if len(rows) < len(trials):
        parts.append(f"{len(trials) - len(rows)} more: locus status {edition.id}")
    return ["; ".join(parts)] if parts else []


def shown(trials: list[TrialSummary], rows: int) -> list[TrialSummary]:
    """Returns the rows worth a place: what failed, the best, the unfinished, the highest, the newest.

    In their order.
    """
    if len(trials) <= rows:
        return trials
    ranked = sorted((row for row in trials if row.mean is not None), key=lambda row: -(row.mean or 0))[:5]
    wanted = [
        *(row for row in trials if row.state.startswith("failed")),
        *(row for row in trials if row.best),
        *(row for row in trials if row.state.startswith(("running", "waiting"))),
        *ranked,
        *reversed(trials),
    ]
    keep = set(list(dict.fromkeys(map(id, wanted)))[:rows])
    return [row for row in trials if id(row) in keep]


def show(
    given: Study | Edition, as_json: bool, results: Mapping[str, list[str]] | None = None, *, defaults: bool = False
) -> None:
    """Prints a study, or an edition of it. `results`: by budget, what came out, a paragraph an entry.

    `defaults`: shows the values of the recipe that are defaults, too. JSON has all of them.
    """
    study, own = (_with_own(given), given.own_paths) if isinstance(given, Edition) else (given, ())
    if as_json:
        print_json(study.plain())
        return
    out = console()
    sentence(out, title(study.name, study.question))
    about = [(label, text) for label in ("paper", "expected") if (text := getattr(study, label))]
    told = [(f"found at {budget}", "\n".join(texts)) for budget, texts in (results or {}).items() if texts]
    section(out, "about", [*about, *told])
    plan = study.plan
    if isinstance(plan, Ablation):
        _show_arms(out, plan)
    else:
        section(out, "space", [*space_words(plan.space).items()])
        first = "; ".join(_said(point) for point in plan.first) or "none"
        sentence(out, f"  first: {first}; {plan.trials} trials")
    _show_base(out, study, {*study.paths(), *own}, defaults)
    counts = catalog.sizes(study)
    if isinstance(given, Edition):  # whose counts are those of its own budget
        counts = {given.budget: f"{len(plan.arms) if isinstance(plan, Ablation) else plan.trials} x {study.seeds}"}
    budgets = [
        (name, f"{_said(size.values) or 'as it is'}; {counts[name]}{catalog.time_words(study, name)}")
        for name, size in study.budgets.items()
        if name in counts
    ]
    section(out, "budgets (trials x seeds, time)", budgets)
    section(out, "published", [(entry.who, str(entry)) for entry in study.published])
    claims = [(claim.kind, f"{claim}" + (f" ({claim.source})" if claim.source else "")) for claim in study.claims]
    section(out, "claims", claims)
    section(out, "gaps to the paper", [("-", gap) for gap in study.gaps])


def _show_base(out: Console, study: Study, named: Collection[str], defaults: bool) -> None:
    """Prints the values of the base recipe that are no defaults, or that the study or the user names."""
    every = [*configuration(study.base)]
    chosen = {
        setting.path for setting in every if defaults or setting.default is not None or _is_named(setting.path, named)
    }
    nodes = {path.rpartition(".")[0] for path in chosen}
    shown = [
        setting for setting in every if setting.path in chosen or setting.path in {f"{node}.kind" for node in nodes}
    ]
    folded = len(every) - len(shown)
    rest = [(f"and {plural(folded, 'default')}", "--all shows them")] if folded else []
    section(out, "base recipe", [*((setting.path, setting.value) for setting in shown), *rest])


def _is_named(path: str, named: Collection[str]) -> bool:
    """Returns whether a path, or the node that begins there, is among some paths."""
    return path in named or path.removesuffix(".kind") in named


def _show_arms(out: Console, plan: Ablation) -> None:
    """Prints the arms of an ablation, or the axes of which they are made."""
    for axis, named in plan.axes.items():
        section(out, f"{axis} ({len(named)})", [(name, _said(values) or "the base") for name, values in named.items()])
    if plan.axes:
        left_out = "; ".join(", ".join(entry.values()) for entry in plan.without)
        sentence(
            out, f"  {plural(len(plan.arms), 'arm')}, one a combination" + (f", without {left_out}" * bool(left_out))
        )
    else:
        section(out, "arms", [(arm, _said(values) or "the base") for arm, values in plan.arms.items()])
    within = f", compared within the same {listed(plan.other_axes)}" if plan.other_axes else ""
    sentence(out, f"  baseline: {plan.baseline}{within}")
    if plan.tune:
        _show_tuning(out, plan.tune)


def _show_tuning(out: Console, tune: Tuning) -> None:
    """Prints how the arms of an ablation are tuned before they are compared."""
    section(out, "each arm is tuned", [*space_words(tune.space).items()])
    first = "; ".join(_said(point) for point in tune.first) or "none"
    how = f"{plural(tune.trials, 'trial')} an arm, {plural(tune.seeds, 'seed')} each, sampler {tune.sampler}"
    sentence(out, f"  {how}; first: {first}")


def _with_own(edition: Edition) -> Study:
    """Returns the study of an edition, its budgets without the values that the user's own replace."""
    budgets = {}
    for name, budget in edition.study.budgets.items():
        left = {path: value for path, value in budget.values.items() if path not in edition.own_paths}
        budgets[name] = budget.model_copy(update={"values": left})
    return edition.study.model_copy(update={"budgets": budgets})


def is_kind(name: str) -> bool:
    """Returns whether a word names a node of a recipe and not a study or a file."""
    return name.partition(".")[0] in kinds.nodes() and name not in library.names()


def show_kind(path: str, as_json: bool) -> None:
    """Prints what a kind is, and what its fields may be; for a node alone, its kinds."""
    if len(kinds.nodes().get(path, {})) > 1:
        texts = {name: kinds.documentation(cls).partition("\n")[0] for name, cls in kinds.nodes()[path].items()}
        if as_json:
            print_json(texts)
        else:
            section(console(), path, [(f"{path}.{name}", text) for name, text in texts.items()])
        return
    cls = kinds.kind(path)
    if as_json:
        print_json(cls.model_json_schema())
        return
    out = console()
    sentence(out, title(path, ""))
    for paragraph in kinds.documentation(cls).split("\n\n"):
        sentence(out, " ".join(paragraph.split()))
    view = columns("field", "default", "what it may be")
    for field in kinds.fields(cls):
        default = "must be given" if field.required else value_words(field.default)
        row(view, field.name, default, field.may_be)
    out.print()
    out.print(view)


def _said(values: dict[str, Any]) -> str:
    return ", ".join(setting_words(values))


def status_of_all(statuses: list[StudyStatus], home: Home) -> None:
    """Prints the state of the studies of a home, one row each."""
    out = console()
    if not statuses:
        sentence(out, f"nothing was run in {home.root} yet; locus studies lists what could be")
        return
    wide = out.width >= NARROW
    view = columns("study", "state", "runs", *(["trials"] if wide else []), "best so far", "last change")
    for status in statuses:
        state = status.state + status.where + (f", {status.stale} of other code" if status.stale else "")
        trials = [status.trials] if wide else []
        row(view, status.id, state, f"{status.done}/{status.asked}", *trials, status.best, _ago(status.last))
    out.print(view)
    for status in statuses:
        if status.trouble:
            sentence(out, f"{status.id} cannot be read: {status.trouble}")
    if any(status.stale for status in statuses):
        names = "locus plan NAME names the files"
        sentence(out, f"answers of other code are not counted; locus run NAME trains what is missing, {names}")


def status_of_one(status: StudyStatus, home: Home) -> None:
    """Prints the state of one study: one row per trial, how much of it is done, and the command that goes on."""
    out = console()
    edition = editions.stored(home, status.id)
    sentence(out, title(status.id, status.question))
    out.print(trials_table(status.rows, edition))
    unknown = "; time left unknown" if status.state == "running" and status.left is None else ""
    left = f"; about {clock(status.left)} left" if status.left else unknown
    sentence(
        out,
        f"{status.state}{status.where}; {status.done} of {status.asked} runs{left}; last change {_ago(status.last)}",
    )
    if status.stale:
        answers, names = plural(status.stale, "answer"), "locus plan names the files"
        sentence(out, f"not counted: {answers} of other code; locus run trains what is missing, {names}")
    if any(trial.state.startswith("failed") for trial in status.rows):
        log = home.study(status.id).log
        labelled(out, "log", str(log), link=address(log))
    if others := home.others(status.id):
        labelled(out, "others", ", ".join(others))
    if status.state == "done":
        labelled(out, "next", run_command(status.id, home, f"--seeds {status.seeds + 2}"))
    elif status.state != "running":
        labelled(out, "to go on", run_command(status.id, home))


def run_command(id: str, home: Home, *options: str) -> str:
    """Returns the command that runs an edition of a home."""
    return " ".join([f"locus run {shlex.quote(id)}{home.option}", *options])


def _ago(moment: float | None) -> str:
    if moment is None:
        return "never"
    seconds = max(time.time() - moment, 0)
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return f"{plural(int(seconds // size), unit)} ago"
    return f"{int(seconds)} s ago"
