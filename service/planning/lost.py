"""Answers that a journal tells of and whose files are gone or damaged, by a crash of the machine or by a person."""

from __future__ import annotations

from service.storage.history import History
from service.storage.journal import FailedWith
from service.storage.outcomes import Outcomes
from trainables.recipe import Run

LOST = "its answer or its weights are gone or damaged; it is trained again"


def lost_answers(history: History, outcomes: Outcomes) -> list[FailedWith]:
    """What the journal must be told, so that the runs that count are trained again.

    Of weights only those are read that some run will start from. Cost: 30 us a run.
    """
    runs = {run.key: run for trial in history.trials for run in history.runs(trial).values()}
    lost = {
        key: run
        for key, run in runs.items()
        if history.state(run).status in ("completed", "diverged") and not outcomes.is_there(key, history.code(run))
    }
    asked = [run for trial in history.trials for run in history.asked(trial)]
    todo = [*lost.values(), *(run for run in asked if not history.state(run).answered)]
    seen = {*lost}
    while todo:
        parents = {parent.key: parent for parent in todo.pop().parents.values() if parent.key not in seen}
        seen |= {*parents}
        found = {key: parent for key, parent in parents.items() if _has_lost_weights(parent, history, outcomes)}
        lost |= found
        todo += found.values()
    return [FailedWith(run=key, code=history.code(run), reason=LOST, counts=False) for key, run in lost.items()]


def _has_lost_weights(run: Run, history: History, outcomes: Outcomes) -> bool:
    completed = history.state(run).status == "completed"
    return completed and not outcomes.has_sound_weights(run.key, history.code(run))
