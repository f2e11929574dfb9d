"""Checks whether all records of a study agree: journal, outcomes, weights, work folders and MLflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from search_spaces.study import Edition
from service.analysis.study_status import driven
from service.storage.check import Check
from service.storage.history import History
from service.storage.home import Home, StudyFolder
from service.storage.journal import Ended, JournalError, read
from service.storage.outcomes import Outcomes
from service.tracking.rows import STUDY, MlflowStatus, Row, rows
from service.tracking.store import Store, TrackedRun, look_up
from service.tracking.sync import check as check_tracking
from trainables.recipe import Run
from trainables.spec import LocusError


def verify(home: Home, edition: Edition, tracking: str | None = None) -> list[Check]:
    """Every check of a study, in order. Raises: LocusError where the study was never run or MLflow does not answer."""
    folder = home.study(edition.id)
    if not folder.journal.exists():
        raise LocusError(f"{edition.id} was never run here")
    check_tracking(home, tracking)
    try:
        facts, torn = read(folder.journal)
    except JournalError as error:
        return [Check("journal", False, str(error))]
    history = History.open(home, edition)
    alive = driven(folder)
    left = " (a torn last line is left out)" if torn else ""
    return [
        Check("journal", True, f"{len(facts)} facts{left}"),
        *_outcomes(Outcomes(home), history, [fact for fact in facts if isinstance(fact, Ended)]),
        _work(folder, history),
        *_mirror(look_up(home, edition, tracking), history, alive),
    ]


def _checked(name: str, looked: int, what: str, wrong: list[str]) -> Check:
    """A check that is good where nothing is wrong; at most three wrong things are named."""
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return Check(name, not wrong, "; ".join(wrong[:3]) + more if wrong else f"{looked} {what}")


def _runs(history: History) -> dict[str, Run]:
    return {run.key: run for trial in history.trials for run in history.runs(trial).values()}


def _outcomes(outcomes: Outcomes, history: History, ended: list[Ended]) -> Iterator[Check]:
    missing, keys, curves, weights = [], [], [], []
    keeps = "weights" in history.edition.study.keep
    parents = {run.key for trial in history.of("parent") for run in history.runs(trial).values()}
    for fact in ended:
        who = f"{fact.run} by {fact.code}"
        answered = outcomes.get(fact.run, fact.code)
        if answered is None:
            missing.append(f"{who} has no file")
            continue
        if answered.run.key != fact.run or answered.name != fact.code:
            keys.append(f"{who} holds {answered.run.key} by {answered.name}")
        measured = history.states[fact.run, fact.code].curve
        if {m.epoch: m.values for m in answered.outcome.curve} != {e: m.values for e, m in measured.items()}:
            curves.append(f"{who} differs from the journal")
        kept = fact.outcome == "completed" and (keeps or fact.run in parents)
        if kept and not outcomes.weights(fact.run, fact.code).exists():
            weights.append(f"{who} has no weights")
    yield _checked("outcomes", len(ended), "answers, each with its file", missing)
    yield _checked("keys", len(ended), "answers are of the run and code in their file's name", keys)
    yield _checked("curves", len(ended), "curves equal the journal's", curves)
    yield _checked("weights", len(ended), "answers looked at", weights)


def _work(folder: StudyFolder, history: History) -> Check:
    """Work folders belong to unfinished runs only."""
    found = [path for path in folder.root.glob("work/*/*/*") if path.is_dir()]
    answered = {place for place, state in history.states.items() if state.answered}
    wrong = [_place(path) for path in found if (path.parts[-3], path.parts[-2]) in answered]
    return _checked(
        "work folders", len(found), "of unfinished runs", [f"{place} is of a run that ended" for place in wrong]
    )


def _place(path: Path) -> str:
    return "/".join(path.parts[-3:])


def _mirror(store: Store | None, history: History, alive: bool) -> Iterator[Check]:
    if store is None:
        yield Check("MLflow", False, "does not know this study; run it again to send it")
        return
    yield _checked("MLflow doubles", len(store.shown), "runs, each once", [_name(double) for double in store.doubles])
    if alive:
        yield Check("MLflow", True, "not compared while a driver runs: MLflow may lag")
        return
    running = [_name(shown) for shown in store.shown.values() if shown.status == "RUNNING"]
    yield _checked("MLflow at rest", len(store.shown), "runs, none RUNNING", [f"{name} is RUNNING" for name in running])
    expected = {row.id: row for row in rows(history, _ended(store))}
    yield _places(store, history, set(expected))
    both = [(row, store.shown[place]) for place, row in expected.items() if place in store.shown]
    states = [
        f"{_name(shown)} is {shown.status}, not {row.status}" for row, shown in both if shown.status != row.status
    ]
    yield _checked("MLflow states", len(both), "end states agree", states)
    wrong = [f"{_name(shown)}: {name}" for row, shown in both for name in _unequal(row, shown)]
    yield _checked("MLflow numbers", len(both), "runs show the journal's last numbers", wrong)


def _ended(store: Store) -> MlflowStatus:
    """How the last driver ended the study; a driver that was killed could not record it."""
    status = store.shown[STUDY].status
    return "KILLED" if status == "RUNNING" else status


def _places(store: Store, history: History, expected: set[tuple[str, str, int | None]]) -> Check:
    """One MLflow run for each row; runs of other code than today's are not counted."""
    today = {(run.key, history.code(run)) for run in _runs(history).values()}
    missing = [f"nothing shows {_words(place)}" for place in sorted(expected - store.shown.keys(), key=str)]
    extra = [
        f"{_name(shown)} is in no journal"
        for place, shown in store.shown.items()
        if place not in expected and (shown.tags.get("locus.key"), shown.tags.get("locus.code")) in today
    ]
    return _checked("MLflow runs", len(expected), "rows, one MLflow run each", missing + extra)


def _words(place: tuple[str, str, int | None]) -> str:
    level, number, seed = place
    return f"{level} {number}" + ("" if seed is None else f" seed {seed}")


def _name(shown: TrackedRun) -> str:
    return shown.tags.get("mlflow.runName", shown.id)


def _unequal(row: Row, shown: TrackedRun) -> list[str]:
    """The metrics whose last value is another than the row's."""
    latest: dict[str, float] = {}
    for point in row.points:
        latest |= point.values
    return [name for name, value in latest.items() if shown.latest.get(name) != value]
