"""Answers that a journal tells of and whose files are gone, or were cut by a crash of the machine."""

from __future__ import annotations

from service.storage.history import History
from service.storage.journal import FailedWith
from service.storage.outcomes import Outcomes

LOST = "the file of its answer is gone or damaged; it is trained again"


def lost_answers(history: History, outcomes: Outcomes) -> list[FailedWith]:
    """What the journal must be told, so that the runs that count are trained again. Cost: 30 us a run."""
    runs = [run for trial in history.trials for run in history.runs(trial).values()]
    ended = [run for run in runs if history.state(run).status in ("completed", "diverged")]
    lost = [(run.key, history.code(run)) for run in ended if not outcomes.is_there(run.key, history.code(run))]
    return [FailedWith(run=key, code=code, reason=LOST, counts=False) for key, code in lost]
