"""Where studies stand, read from their journals alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from filelock import FileLock, Timeout

from service import editions
from service.history import History
from service.home import Home, StudyFolder
from service.journal import read
from service.rows import TrialRow, rows
from trainables.code import Codes


@dataclass(frozen=True)
class StudyStatus:
    """One study: counts of runs, the best trial, the last sign of life (seconds of the day's clock), a row a trial."""

    id: str
    question: str
    state: str
    done: int
    running: int
    asked: int
    trials: str
    best: str
    last: float | None
    rows: list[TrialRow]

    def plain(self) -> dict[str, Any]:
        """Plain values, for --json."""
        return asdict(self)


def driven(folder: StudyFolder) -> bool:
    """Whether a driver holds a study's lock."""
    if not folder.lock.exists():
        return False
    try:
        with FileLock(folder.lock, timeout=0):
            return False
    except Timeout:
        return True


def one_status(home: Home, id: str) -> StudyStatus:
    """The status of one study. Cost: reads two files."""
    folder = home.study(id)
    edition = editions.stored(home, id)
    codes = Codes()
    history = History(edition, lambda recipe: codes(recipe).digest, read(folder.journal)[0])
    alive = driven(folder)
    found = rows(history, alive=alive)
    best = next((row for row in found if row.best), None)
    open_rows = any(row.state in ("interrupted", "unfinished") for row in found)
    short = len(history.of("trial")) < history.wanted
    complete = bool(found) and not open_rows and not short and (history.wanted == 0 or bool(history.confirms))
    states = [history.state(run) for trial in history.trials for run in history.runs(trial).values()]
    return StudyStatus(
        id=id,
        question=edition.study.question,
        state="running" if alive else "done" if complete else "unfinished",
        done=sum(state.status in ("completed", "diverged", "stopped") for state in states),
        running=sum(state.status == "running" for state in states) if alive else 0,
        asked=len(states),
        trials=f"{sum(row.state == 'done' for row in found)}/{max(history.wanted, len(history.of('trial')))}",
        best=f"#{best.label} {best.name}  {best.score}" if best else "",
        last=history.last,
        rows=found,
    )


def all_status(home: Home) -> list[StudyStatus]:
    """The status of every study of a home, the one touched last at the end."""
    return [one_status(home, id) for id in home.ids()]
