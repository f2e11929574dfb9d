"""Saves the results of a finished study as a JSON file, its record, beside the study's file."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from search_spaces import library
from search_spaces.leaves import is_of_data
from search_spaces.record import RULES, Judged, Record, Row, Scored, defined
from search_spaces.study import Edition
from search_spaces.words import plural, without_sources
from service.analysis.across_trials import length_scores
from service.analysis.headline import headline
from service.analysis.statistics import CONFIDENCE, Scores
from service.analysis.study_result import StudyResult
from service.analysis.trial_result import RunResult, TrialResult
from service.planning.forecast import Forecast
from service.planning.schedule import Done, next_action
from service.reporting.provenance import circumstances, training_s
from service.storage import editions
from service.storage.history import History
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from service.terminal.views import run_command
from trainables.spec import LocusError, Spec, SpecError
from trainables.whole_files import require_writable, write_whole

VERSIONS = ("python", "torch", "timm", "ray", "optuna", "mlflow")
"""The packages whose versions a record holds, called as in an answer's environment. The version of locus is added."""


def record(home: Home, name: str, prepare: Callable[[StudyResult], None] = lambda result: None) -> Path:
    """Saves the results of a finished study as a JSON file beside the study's file, and returns the JSON file's path.

    `name` is that of a named study, or the file that holds it. `@BUDGET` or `@BUDGET~MARK` may follow; without it, the
    edition that ran last is saved. `prepare` computes the probes that the runs lack, before the results are read.
    Raises: LocusError if the study's definition has changed since, or if it is not finished with today's code.
    """
    where, _, budget = name.rpartition("@") if "@" in name and not library.in_file(name) else (name, "", "")
    if where in {id.partition("@")[0] for id in home.ids()} - {*library.names()}:
        raise SpecError(f"record must be given the file of a study of your own, such as ./mine.py, got {where!r}")
    study = library.find(where)
    ran = editions.stored(home, editions.latest(home, f"{study.name}@{budget}" if budget else study.name))
    if ran.some_arms:
        raise LocusError(f"a record must have all arms of its study, got {ran.id}, which has some (--arms)")
    edition = study.at(ran.budget, set=_own(ran)).model_copy(update={"mark": ran.mark, "own_paths": ran.own_paths})
    if defined(edition) != defined(ran):
        raise LocusError(f"{ran.id} must be what the study asks today, but its definition has changed since it was run")
    prepare(_ended(home, edition))
    recorded = of_result(_ended(home, edition))
    path = library.record_file(where, recorded.id)
    require_writable(path.parent)
    write_whole(path, recorded.model_dump_json(indent=1) + "\n")
    return path


def _own(edition: Edition) -> dict[str, Any]:
    """Returns, by path, the user's own values of an edition: those that its study's budget does not have.

    Images are given by their digest and their numbers, so that no folder is read. The sizes that followed from the
    images are returned, too.
    """
    study, size = edition.study, edition.study.budgets.get(edition.budget)
    base = study.base
    values = {path: base.get(path) for path in edition.own_paths if not is_of_data(path) and path != "model.name"}
    if "model.name" in edition.own_paths:  # of timm's, where a recipe holds the numbers
        values |= {f"model.{field}": getattr(base.model, field) for field in base.model.fields()}
    if any(map(is_of_data, edition.own_paths)):
        values |= {f"data.{field}": getattr(base.data, field) for field in base.data.fields()}
    if any(map(is_of_data, values)) and size and size.fit:
        values |= {path: base.get(path) for path in size.fit.values(base, values)}
    if values.get("data.kind") in ("folder", "arrays"):
        values["data.path"] = Path(values["data.path"]).name
    return {path: value.plain() if isinstance(value, Spec) else value for path, value in values.items()}


def _ended(home: Home, edition: Edition) -> StudyResult:
    """Returns the result of an edition. Raises: LocusError if it has not ended, or if answers of older code count."""
    history = History.open(home, edition)
    counts = history.seeds, history.trials_asked
    history.raise_counts(edition)
    left = Forecast(history)(1)
    if history.failed or not isinstance(next_action(history, set()), Done):
        fewer = counts != (history.seeds, history.trials_asked)
        more = ["fewer seeds or points were asked for than the budget has"] if fewer else []
        more += [f"{plural(history.failed, 'run')} failed"] if history.failed else []
        more += [f"{plural(history.stale, 'answer')} of other code do not count"] if history.stale else []
        why = "".join(f"; {reason}" for reason in more)
        raise LocusError(
            f"{edition.id} must have ended before it is recorded, got {left.done} of {left.total} runs{why} "
            f"({run_command(edition.id, home)} trains what is missing)"
        )
    tuned = [trial for arm in history.tuning.chosen if (trial := history.tuning.chosen_trial(arm))]
    if older := sum(history.answer(trial).status != "completed" for trial in tuned):
        raise LocusError(
            f"a record must be by today's code, got {plural(older, 'arm')} with values that runs of other code chose "
            f"(locus run {edition.id} --as WORD tunes again)"
        )
    return StudyResult(home, edition, history, Outcomes(home))


def of_result(result: StudyResult) -> Record:
    """Returns the record of the result of a study that has ended."""
    study = result.edition.study
    own, departure = _own(result.edition), result.departure
    verdicts = result.judge_page(None)[0] if departure and departure.told else result.claims
    # each run once, also parents and runs that were stopped
    runs = list({run.run.key: run for row in result.rows for run in row.runs.values()}.values())
    last = max((run.state.last for run in runs if run.state.last is not None), default=0.0)
    settings = circumstances(result)
    devices = settings.get("device", {})
    gpus = [name for name in devices if name != "cpu"]
    processors = [*settings.get("host_cpu", {})] if "cpu" in devices or not gpus else []
    cores = [plural(int(count), "core") for count in settings.get("host_cores", {})]
    versions = {name: " and ".join(settings[name]) for name in VERSIONS if name in settings}
    with suppress(metadata.PackageNotFoundError):
        versions["locus"] = metadata.version("locus")
    return Record(
        study=study.name, budget=result.edition.budget, mark=result.edition.mark if own else "", own=own,
        date=datetime.fromtimestamp(last, UTC).strftime("%Y-%m-%d"),
        rules=RULES, definition=defined(result.edition), seeds=result.history.seeds, minutes=_minutes(runs),
        machine=", ".join([*gpus, *processors, *cores]) or "an unknown machine", versions=versions,
        headline=headline(result), metric=study.score.test, level=CONFIDENCE,
        rows=tuple(_row(result, name, row) for name, row in result.named.items()),
        verdicts=tuple(
            Judged(
                claim=str(verdict.claim), word=verdict.word, unseen=verdict.unseen, n=verdict.n,
                measured=verdict.measured, interval=verdict.interval, p=verdict.p,
            )
            for verdict in verdicts
        ),
        gap=departure.why if departure else "",
    )  # fmt: skip


def _row(result: StudyResult, name: str, row: TrialResult) -> Row:
    """Returns the row of a record for one trial. `name` is what the study calls the trial."""
    (code,) = {run.code for run in row.runs.values()}
    plan, chosen = result.edition.study.plan, without_sources(row.trial.values)
    if plan.arms:  # what an arm's tuning chose; of a search, the whole point
        chosen = {path: value for path, value in chosen.items() if plan.tune and path in plan.tune.paths}
    lengths = {
        length: replace(row.validation, values=dict(sorted(values.items())))
        for length, values in length_scores(row).items()
        if row.recipe.optimizer.lengths
    }
    return Row(
        name=name, code=code, values=chosen, asked=row.test.asked, diverged=len(row.test.diverged),
        time_s=training_s(row), test=_scored(row.test),
        test_sizes={side: _scored(scores) for side, scores in row.test_sizes.items()},
        lengths={length: _scored(scores) for length, scores in lengths.items()},
    )  # fmt: skip


def _scored(scores: Scores) -> Scored:
    """Returns a trial's scores in the form of a record."""
    assert scores.mean is not None, "a study that has ended has a score of each trial"
    return Scored(
        n=scores.n, mean=scores.mean, std=scores.std, interval=scores.interval, failed=len(scores.failed),
        seeds=dict(scores.values),
    )  # fmt: skip


def _minutes(runs: list[RunResult]) -> float:
    """Returns how long at least one run was training, counting each from the start of its last try. Units: minutes.

    A run that another study trained adds the time of its epochs.
    """
    here = [run.state for run in runs if run.state.begun is not None and not run.state.reused]
    spans = [(state.begun, state.last) for state in here if state.begun is not None and state.last is not None]
    seconds = sum(run.seconds for run in runs if run.state.begun is None or run.state.reused)
    end = -math.inf
    for begun, last in sorted(spans):
        seconds += max(last - max(begun, end), 0.0)
        end = max(end, last)
    return round(seconds / 60, 1)
