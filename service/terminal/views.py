"""Prints what commands show: studies and kinds, the state of studies, their plans, answers and comparisons.

Only the functions that print verdicts import the modules that judge a study, so that all other commands start fast.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from search_spaces import library
from search_spaces.study import Ablation, Edition, Study
from search_spaces.words import configuration, setting_words, space_words, value_words
from service.analysis.findings import finding
from service.analysis.format import between, fixed, metric_words, p_text, signed
from service.analysis.statistics import FEWEST
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
    from service.analysis.comparison import Comparison
    from service.analysis.study_result import StudyResult
    from service.analysis.study_status import StudyStatus
    from service.analysis.trial_result import TrialSummary
    from service.analysis.verdicts import Verdict
    from service.planning.estimate import WorkEstimate
    from service.storage import Check
    from service.storage.history import History
    from service.storage.home import Home
    from trainables.training.trained import Facts

STYLES = {"done": "green", "running": "cyan", "stopped": "yellow", "diverged": "magenta", "failed": "red"}
COLORS = {"SUPPORTED": "bold green", "REFUTED": "bold red", "INCONCLUSIVE": "bold yellow", "NOT JUDGED": "bold"}
"""The style in which a terminal shows each verdict."""
MOST_CLASSES = 10
"""A line lists at most so many names of classes."""


def trials_table(trials: list[TrialSummary], edition: Edition, rows: int | None = None) -> RenderableType:
    """Returns the trials as a table with its legend; with `rows`, at most so many trials."""
    view = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1))
    metric = edition.study.score.metric
    for name in ("#", "trial", "seeds", "epoch", metric, "state"):
        justify = "left" if name in ("trial", metric, "state") else "right"
        view.add_column(name, justify=justify, no_wrap=name not in ("trial", "state"), overflow="fold")  # type: ignore[arg-type]
    kept_rows = trials if rows is None else most_telling(trials, rows)
    for trial in kept_rows:
        style = "bold green" if trial.best else STYLES.get(trial.state.split()[0].rstrip(",:"), "")
        state = Text(f"{trial.state}  {trial.mark}".rstrip(), style=style)
        cells = (trial.label, trial.name, f"{trial.done}/{trial.asked}", f"{trial.epoch}/{trial.epochs}", trial.score)
        view.add_row(*map(Text, cells), state)
    return Group(view, *(Text(line, style="dim") for line in legend(kept_rows, trials, edition)))


def legend(rows: list[TrialSummary], trials: list[TrialSummary], edition: Edition) -> list[str]:
    """Returns lines that explain the numbers and signs of a table of `rows`, and say how many of `trials` it omits."""
    parts = []
    if any(trial.score for trial in rows):
        parts.append(finding("legend.metric", key=edition.study.score.metric, metric=edition.study.score.metric))
    if any("+-" in trial.score for trial in rows):
        parts.append(finding("legend.deviation"))
    labels = {trial.label[0]: trial.label for trial in reversed(rows)}
    if label := labels.get("c"):
        parts.append(finding("legend.confirmed", label=label, number=label[1:]))
    parts += [finding(f"legend.{letter}", label=labels[letter]) for letter in "tp" if letter in labels]
    if len(rows) < len(trials):
        parts.append(finding("legend.more", count=len(trials) - len(rows), study=edition.id))
    return [str(finding("legend", parts=parts))] if parts else []


def most_telling(trials: list[TrialSummary], rows: int) -> list[TrialSummary]:
    """Returns at most `rows` trials: those that failed, the best, the unfinished, the highest and the newest ones.

    The first of these kinds have priority; the order of the trials stays.
    """
    if len(trials) <= rows:
        return trials
    ranked = sorted((trial for trial in trials if trial.mean is not None), key=lambda trial: -(trial.mean or 0))[:5]
    first = [
        *(trial for trial in trials if trial.state.startswith("failed")),
        *(trial for trial in trials if trial.best),
        *(trial for trial in trials if trial.state.startswith(("running", "waiting"))),
        *ranked,
        *reversed(trials),
    ]
    worth = set(list(dict.fromkeys(map(id, first)))[:rows])
    return [trial for trial in trials if id(trial) in worth]


def show(
    subject: Study | Edition, as_json: bool, results: Mapping[str, list[str]] | None = None, *, defaults: bool = False
) -> None:
    """Prints the definition of a study, or of an edition of it.

    `results` has, by budget, the results so far, one paragraph per entry. `defaults` also shows those values of the
    recipe that are defaults. JSON has all values.
    """
    study, own_paths = (subject.study, subject.own_paths) if isinstance(subject, Edition) else (subject, ())
    plan, counts = study.plan, catalog.sizes(study)
    if isinstance(subject, Edition):  # its budgets without the values that the user's own replace
        budgets = {}
        for name, budget in study.budgets.items():
            left = {path: value for path, value in budget.values.items() if path not in own_paths}
            budgets[name] = budget.model_copy(update={"values": left})
        study = study.model_copy(update={"budgets": budgets})
        counts = {subject.budget: f"{plan.size} x {study.seeds}"}
    if as_json:
        print_json(study.plain())
        return
    out = console()
    sentence(out, title(study.name, study.question))
    about = [(label, text) for label in ("paper", "expected") if (text := getattr(study, label))]
    about += [(f"found at {budget}", "\n".join(texts)) for budget, texts in (results or {}).items() if texts]
    section(out, "about", about)
    if isinstance(plan, Ablation):
        _show_arms(out, plan)
    else:
        section(out, "space", [*space_words(plan.space).items()])
        sentence(out, str(finding("show.search", first=[*map(_settings, plan.first)] or ["none"], trials=plan.trials)))
    _show_base(out, study, {*study.paths(), *own_paths}, defaults)

    lines = [
        (name, f"{_settings(size.values) or 'as it is'}; {counts[name]}{catalog.time_words(study, name)}")
        for name, size in study.budgets.items()
        if name in counts
    ]
    section(out, "budgets (trials x seeds, time)", lines)
    section(out, "published", [(entry.who, str(entry)) for entry in study.published])
    claims = [(claim.kind, f"{claim}" + (f" ({claim.source})" if claim.source else "")) for claim in study.claims]
    section(out, "claims", claims)
    section(out, "gaps to the paper", [("-", gap) for gap in study.gaps])


def _show_base(out: Console, study: Study, named: set[str], defaults: bool) -> None:
    """Prints the values of the base recipe that are no defaults, and those whose paths are in `named`.

    The path of a node, such as `encoding`, also names the path of its kind, `encoding.kind`. With `defaults` all values
    are printed.
    """
    settings = [*configuration(study.base)]
    chosen = {
        setting.path
        for setting in settings
        if defaults or setting.default is not None or {setting.path, setting.path.removesuffix(".kind")} & named
    }
    chosen |= {f"{path.rpartition('.')[0]}.kind" for path in chosen}
    lines = [(setting.path, setting.value) for setting in settings if setting.path in chosen]
    if folded := len(settings) - len(lines):
        lines.append((str(finding("show.defaults", count=folded)), "--all shows them"))
    section(out, "base recipe", lines)


def _show_arms(out: Console, plan: Ablation) -> None:
    """Prints the arms or axes of an ablation, its baseline, and the search that tunes each arm."""
    for axis, named in plan.axes.items():
        section(
            out, f"{axis} ({len(named)})", [(name, _settings(values) or "the base") for name, values in named.items()]
        )
    if plan.axes:
        without = [", ".join(entry.values()) for entry in plan.without]
        sentence(out, str(finding("show.combinations", arms=len(plan.arms), without=without or None)))
    else:
        section(out, "arms", [(arm, _settings(values) or "the base") for arm, values in plan.arms.items()])
    sentence(out, str(finding("show.baseline", name=plan.baseline, axes=plan.other_axes or None)))
    if plan.tune:
        section(out, "each arm is tuned", [*space_words(plan.tune.space).items()])
        first = [*map(_settings, plan.tune.first)] or ["none"]
        values = {"trials": plan.tune.trials, "seeds": plan.tune.seeds, "sampler": plan.tune.sampler, "first": first}
        sentence(out, str(finding("show.tuning", **values)))


def is_kind(name: str) -> bool:
    """Returns whether a word names a node of a recipe, such as `encoding.peg`, and not a study."""
    return name.partition(".")[0] in kinds.nodes() and name not in library.names()


def show_kind(path: str, as_json: bool) -> None:
    """Prints what a kind (`encoding.peg`) is and its fields may be; for a node alone (`encoding`), its kinds."""
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


def _settings(values: dict[str, Any]) -> str:
    """Returns values of a recipe, by path, in words."""
    return ", ".join(setting_words(values))


def status_of_all(statuses: list[StudyStatus], home: Home) -> None:
    """Prints the state of the studies of a home, one row each."""
    out = console()
    if not statuses:
        sentence(out, str(finding("status.nothing", home=home.root)))
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
            sentence(out, str(finding("status.trouble", id=status.id, trouble=status.trouble)))
    if any(status.stale for status in statuses):
        sentence(out, str(finding("status.stale")))


def status_of_one(status: StudyStatus, home: Home) -> None:
    """Prints the state of one study: one row per trial, how many runs are done, and the command that continues it."""
    out = console()
    edition = editions.stored(home, status.id)
    sentence(out, title(status.id, status.question))
    out.print(trials_table(status.rows, edition))
    values = {
        "state": status.state + status.where,
        "done": status.done,
        "asked": status.asked,
        "ago": _ago(status.last),
    }
    if status.state == "running" and status.left is None:
        sentence(out, str(finding("status.one, time unknown", **values)))
    else:
        sentence(out, str(finding("status.one", **values, left=status.left or None)))
    if status.stale:
        sentence(out, str(finding("status.stale answers", count=status.stale)))
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
    """Returns in words how long ago a moment was, in seconds since 1970; `never` for None."""
    if moment is None:
        return "never"
    seconds = max(time.time() - moment, 0)
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return str(finding(f"ago.{unit}s", count=int(seconds // size)))
    return str(finding("ago.seconds", count=int(seconds)))


def plan(history: History, estimate: WorkEstimate) -> None:
    """Prints what `locus run` would train: the runs of each trial, done, reused and to train, and the estimate."""
    from service.analysis.power import seeds_sentence

    out = console()
    if estimate.work:
        view = columns("#", "trial", "done", "reused", "to train")
        for work in estimate.work:
            view.add_row(*map(Text, (work.label, work.name, *(str(count or "") for count in work.counts))))
        out.print(view)
    for line in estimate.lines(history.edition.id):
        sentence(out, line)
    sentence(out, seeds_sentence(history))


def ending(result: StudyResult, more: str, larger: str = "", tracking: str | None = None) -> None:
    """Prints how a command that ran a study ended: the table, the verdicts, and what to do next.

    `more` is the command that trains more seeds, without their number. `larger` is the command for the next budget; it
    is empty unless this budget only shows that everything works. `tracking` is the MLflow that the command named.
    """
    from service.analysis.headline import next_seeds
    from service.analysis.power import look_words
    from service.storage.home import without_secrets

    answer(result)
    out, study, home, history = console(), result.edition.id, result.home, result.history
    page = home.study(study).report / "report.html"
    if page.exists():
        labelled(out, "report", str(page), link=address(page))
    else:
        labelled(out, "report", str(finding("next.report", study=study, home=home.option)))
    store = shlex.quote(without_secrets(tracking)) if tracking else None
    labelled(out, "MLflow", str(finding("next.ui", study=study, home=home.option, tracking=store)))
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
    """Prints the table of trials, a sentence that answers the study's question, and the verdicts."""
    from service.analysis.headline import details, headline
    from service.analysis.trial_result import summarize

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
    """Prints one verdict with the claim that it judges."""
    label = Text(claim.label, style=COLORS[claim.word])
    sentence(console(), label.append(str(claim).removeprefix(claim.label), style="not bold default"))


def report_written(result: StudyResult, page: Path) -> None:
    """Prints the study of a report, its answer in a sentence, the report's path, and the study's other editions."""
    from service.analysis.headline import headline

    out = console()
    labelled(out, "study", result.edition.id)
    sentence(out, Text(headline(result), style="bold"))
    labelled(out, "report", str(page), link=address(page))
    if others := result.home.others(result.edition.id):
        labelled(out, "others", ", ".join(others))


def checks(results: Iterable[Check]) -> None:
    """Prints the checks of a study as a table."""
    view = columns("", "check", "detail")
    for check in results:
        mark = Text("ok", style="green") if check.ok else Text("WRONG", style="bold red")
        view.add_row(mark, Text(check.name), Text(check.detail))
    console().print(view)


def exported(facts: Facts) -> None:
    """Prints on standard error which model is exported: its trial, seed and scores, its input and its output.

    If the run has a moving average of its weights, it also says whether the model has that or the last weights.
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
    """Prints a comparison of two studies.

    `notes` are the sentences below the table. `page` is the path of the HTML page; None if it could not be written.
    """
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
        for number, match in enumerate(compared.matches):
            gap = compared.differences.get(number)
            test = (signed(gap.mean), between(gap.interval), p_text(gap.p).removeprefix("= ")) if gap else ("", "", "")
            row(view, match.name, fixed(match.a.test.mean), fixed(match.b.test.mean), *test, match.how_words)
        out.print(view)
    sentence(out, Text(headline, style="bold"))
    for line in notes:
        sentence(out, Text(line, style="dim"))
    if page is not None:
        labelled(out, "page", str(page), link=address(page))
