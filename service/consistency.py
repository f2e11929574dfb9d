"""Checks whether all records of a study agree: journal, outcomes, weights, work folders and MLflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from search_spaces.study import Edition
from search_spaces.words import plural
from service.planning.tuning import best_number
from service.repairing import answers_of, wrong_answers
from service.storage.check import Check
from service.storage.history import History
from service.storage.home import Home, StudyFolder
from service.storage.journal import Ended, JournalError, read
from service.storage.outcomes import Outcomes
from service.storage.tuned import tuning_of
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
    alive = folder.driven
    left = " (a torn last line is left out)" if torn else ""
    older = f"; {plural(history.stale, 'answer')} of other code than today's" if history.stale else ""
    histories = [history, *([History.open(home, edition, adopt=True)] if history.stale else [])]
    return [
        Check("journal", True, f"{len(facts)} facts{left}{older}"),
        *_tuning(history),
        *_outcomes(Outcomes(home), history, answers_of(facts, history)),
        _work(folder, history),
        *_mirror(look_up(home, edition, tracking), histories, alive),
    ]


def _checked(name: str, looked: int, what: str, wrong: list[str]) -> Check:
    """A check that is good where nothing is wrong; at most three wrong things are named."""
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return Check(name, not wrong, "; ".join(wrong[:3]) + more if wrong else f"{looked} {what}")


def _runs(history: History) -> dict[str, Run]:
    return {run.key: run for trial in history.trials for run in history.runs(trial).values()}


def _tuning(history: History) -> Iterator[Check]:
    """The values of each arm are those of its highest trial, where its trials count by today's code."""
    if tuning_of(history.edition) is None:
        return
    wrong = []
    for arm in history.tuning.chosen:
        chosen, best = history.tuning.chosen_trial(arm), best_number(history, arm)
        counts = chosen is not None and history.answer(chosen).status == "completed"
        if (counts or chosen is None) and best is not None and (chosen is None or chosen.number != best):
            wrong.append(f"{arm!r} has the values of trial {chosen and chosen.number}, but trial {best} is higher")
    yield _checked("tuning", len(history.tuning.chosen), "arms, each with the values of its highest trial", wrong)


SOUND = {
    "outcomes": "answers, each with its file",
    "keys": "answers are of the run and code in their file's name",
    "curves": "curves equal the journal's",
    "weights": "answers, each with its weights",
    "probes": "answers, their probes can be read",
}
"""What is checked of the files of answers, and the words where all is right."""


def _outcomes(outcomes: Outcomes, history: History, ended: list[Ended]) -> Iterator[Check]:
    found = [*wrong_answers(outcomes, history, ended)]
    for name, words in SOUND.items():
        yield _checked(name, len(ended), words, [one.sentence for one in found if one.check == name])


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


def _mirror(store: Store | None, histories: list[History], alive: bool) -> Iterator[Check]:
    """MLflow compared with the journal: by today's code, or as it was while older answers still counted."""
    if store is None:
        yield Check("MLflow", False, "does not know this study; run it again to send it")
        return
    yield _checked(
        "MLflow copies",
        len(store.shown),
        "MLflow runs, none twice",
        [f"{_name(double)} is there twice" for double in store.doubles],
    )
    if alive:
        yield Check("MLflow", True, "not compared while a driver runs: MLflow may lag")
        return
    running = [_name(shown) for shown in store.shown.values() if shown.status == "RUNNING"]
    yield _checked(
        "MLflow ended", len(store.shown), "MLflow runs, none still RUNNING", [f"{name} is RUNNING" for name in running]
    )
    expected, *older = ({row.id: row for row in rows(history, _ended(store))} for history in histories)
    yield _places(store, histories[0], set(expected))
    both = [(row, store.shown[place]) for place, row in expected.items() if place in store.shown]
    states = [
        f"{_name(shown)} is {shown.status}, not {row.status}" for row, shown in both if shown.status != row.status
    ]
    yield _checked("MLflow states", len(both), "MLflow runs that ended as the journal says", states)
    wrong = [
        f"{_name(shown)}: {name}"
        for row, shown in both
        for name in _unequal(row, shown)
        if all(row.id not in view or name in _unequal(view[row.id], shown) for view in older)
    ]
    yield _checked("MLflow numbers", len(both), "MLflow runs with the journal's last numbers", wrong)


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
    return _checked("MLflow runs", len(expected), "trials and runs, each with one MLflow run", missing + extra)


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
