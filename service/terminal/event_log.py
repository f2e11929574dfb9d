"""The events of a study from its journal, a line each, as `locus logs` prints them; and how a study is followed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from search_spaces.study import Trial
from service.storage import editions
from service.storage.history import History
from service.storage.home import Home, StudyFolder
from service.storage.journal import Fact, Place, Planned, read_on
from service.terminal.event_lines import EventLines
from trainables.recipe import Run
from trainables.recipe.code_digest import CodeDigests
from trainables.spec import SpecError

POLL_S = 0.5
"""Seconds between two looks at a journal that grows."""


def events(home: Home, id: str, *, run: str | None = None, follow: bool = False) -> Iterator[str]:
    """The events so far; with `follow`, until no driver runs the study.

    `run`: those of one run alone, by its key (or how it begins) or by its row and seed, such as 3.0.
    Raises: SpecError where no run has that name.
    """
    folder = home.study(id)
    codes = CodeDigests()
    history = History(editions.stored(home, id), lambda recipe: codes(recipe).digest, [])
    lines, place, found = EventLines(history), Place(), run is None
    label, _, seed = (run or "").partition(".")
    named: Trial | None = None
    for _ in looks(folder) if follow else (False,):
        facts, place = read_on(folder.journal, place)
        for fact in facts:
            history.add(fact)
            if isinstance(fact, Planned) and seed.isdigit() and history.trials[-1].label == label:
                named = history.trials[-1]
            wanted = history.runs(named).get(int(seed)) if named else None
            line = lines(fact)
            if line is not None and (run is None or _is_of(fact, run, wanted)):
                found = True
                yield f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(fact.time))}  {line}"
    if not found:
        raise SpecError(f"--run must be the key of a run of {id}, or its row and seed such as 0.1, got {run!r}")


def looks(folder: StudyFolder, pause: Callable[[float], object] = time.sleep) -> Iterator[bool]:
    """Whether a driver runs the study, again and again; the first look that finds none is the last one."""
    while alive := folder.driven:
        yield True
        pause(POLL_S)
    yield alive


def news(folder: StudyFolder, every_s: float, pause: Callable[[float], object] = time.sleep) -> Iterator[bool]:
    """The looks to report: the first one, then one every so many seconds if there are new facts, and the last one."""
    place, turns = Place(), max(1, round(every_s / POLL_S))
    for turn, alive in enumerate(looks(folder, pause)):
        if alive and turn % turns:
            continue
        facts, place = read_on(folder.journal, place)
        if facts or not turn or not alive:
            yield alive


def _is_of(fact: Fact, name: str, wanted: Run | None) -> bool:
    """Whether a fact is about the run whose key begins with a name, or about the one that is wanted."""
    key = getattr(fact, "run", None)
    return key is not None and (key.startswith(name) or (wanted is not None and key == wanted.key))
