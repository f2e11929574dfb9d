"""Checks whether all records of a study agree: journal, outcomes, weights, work folders and MLflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from search_spaces.study import Edition
from search_spaces.words import plural
from service.planning.schedule import best_number
from service.repairing import answers_of, wrong_answers
from service.storage.check import Check
from service.storage.history import History
from service.storage.home import Home, StudyFolder
from service.storage.journal import Ended, JournalError, read_on
from service.storage.outcomes import Outcomes
from service.storage.tuned import tuning_of
from service.tracking.agreement import checked, compare_with_mlflow
from service.tracking.store import look_up
from service.tracking.sync import check as check_tracking
from trainables.recipe import Run
from trainables.spec import LocusError


def verify(home: Home, edition: Edition, tracking: str | None = None) -> list[Check]:
    """Every check of a study, in order.

    Cost: reads all answers and weights, and asks an MLflow server for each curve (2-10 ms).
    Raises: LocusError if the study was never run, and where MLflow does not answer or cannot be read.
    """
    folder = home.study(edition.id)
    if not folder.journal.exists():
        raise LocusError(f"{edition.id} was never run here")
    check_tracking(home, tracking)
    try:
        facts, end = read_on(folder.journal)
        history = History.open(home, edition)
    except JournalError as error:
        return [Check("journal", False, str(error))]
    alive = folder.driven
    left = " (a torn last line is left out)" if end.offset < folder.journal.stat().st_size else ""
    if end.left_out:
        left += f" ({plural(end.left_out, 'line')} of a driver that another one had replaced left out)"
    older = f"; {plural(history.stale, 'answer')} of other code than today's" if history.stale else ""
    histories = [history, *([History.open(home, edition, adopt=True)] if history.stale else [])]
    return [
        Check("journal", True, f"{len(facts)} facts{left}{older}"),
        *_tuning(history),
        *_outcomes(Outcomes(home), history, answers_of(facts, history)),
        _work(folder, history),
        *compare_with_mlflow(look_up(home, edition, tracking), histories, None if tracking else home, alive=alive),
    ]


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
    yield checked("tuning", len(history.tuning.chosen), "arms, each with the values of its highest trial", wrong)


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
        yield checked(name, len(ended), words, [one.sentence for one in found if one.check == name])


def _work(folder: StudyFolder, history: History) -> Check:
    """Work folders belong to unfinished runs only."""
    found = [path for path in folder.root.glob("work/*/*/*") if path.is_dir()]
    answered = {place for place, state in history.states.items() if state.answered}
    wrong = [_place(path) for path in found if (path.parts[-3], path.parts[-2]) in answered]
    return checked(
        "work folders", len(found), "of unfinished runs", [f"{place} is of a run that ended" for place in wrong]
    )


def _place(path: Path) -> str:
    return "/".join(path.parts[-3:])
