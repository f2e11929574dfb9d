"""Asks the driver of a study that runs, in whatever process, to change or to stop it."""

from __future__ import annotations

import time

from search_spaces.study import Edition, Search
from search_spaces.words import plural
from service.planning.run_options import RunOptions
from service.storage.control import Control, ask
from service.storage.history import History
from service.storage.home import Home
from trainables.spec import LocusError

PATIENCE_S = 20.0
"""How long a driver may take to read a request. It reads them while runs train, every second."""
POLL_S = 0.2
NOTHING = Control()


class BeingRunError(LocusError):
    """A study that another driver runs. `asked`: what that driver was asked to change."""

    def __init__(self, message: str, asked: Control = NOTHING) -> None:
        super().__init__(message)
        self.asked = asked


def more(edition: Edition, home: Home, options: RunOptions) -> Control:
    """What a command asks for beyond what a study that runs will do: more seeds or trials, or other concurrent runs."""
    history = History.open(home, edition)
    plan = edition.study.plan
    trials = plan.trials if isinstance(plan, Search) else 0
    return Control(
        seeds=edition.study.seeds if edition.study.seeds > history.seeds else None,
        trials=trials if trials > history.trials_asked else None,
        max_concurrent=options.max_concurrent,
    )


def change(edition: Edition, home: Home, options: RunOptions) -> BeingRunError:
    """Asks the driver of a study for what a command wants beyond it; the sentence that says so, to be raised."""
    there = home.study(edition.id).storage_uri
    if options.storage not in (None, there):
        has = f"with the storage {there}" if there else "without a storage"
        return BeingRunError(
            f"{edition.id} is being run by another driver {has}; for --storage {options.storage}, stop it first "
            f"(locus stop {edition.id})"
        )
    asked = more(edition, home, options)
    does = request(home, edition.id, asked) if asked.given() else "does all of this; see locus status"
    driver = home.study(edition.id).driver
    where = f" {driver}," if driver and driver.is_elsewhere() else ""
    return BeingRunError(f"{edition.id} is being run by another driver,{where} which {does}", asked)


def request(home: Home, id: str, asked: Control) -> str:
    """Leaves a request for a driver and waits until it was read; what happened, in words.

    Raises: LocusError if the study is not being run, or its driver ended before it read the request.
    """
    folder = home.study(id)
    if not folder.driven:
        raise LocusError(f"{id} is not being run here; see locus status")
    ask(folder, asked)
    until = time.monotonic() + PATIENCE_S
    while folder.control.exists():
        if not folder.driven:
            folder.control.unlink(missing_ok=True)
            raise LocusError(f"{id} ended before its driver read this; type it again")
        if time.monotonic() > until:
            return f"will be asked {_words(asked)} as soon as it trains"
        time.sleep(POLL_S)
    return f"was asked {_words(asked)}"


def _words(asked: Control) -> str:
    """A request in words: `for 8 seeds and 4 concurrent runs`."""
    if asked.stop:
        return "to stop each run after its epoch" if asked.stop == "after the epoch" else "to stop now"
    counts = (("seed", asked.seeds), ("trial", asked.trials), ("concurrent run", asked.max_concurrent))
    return "for " + " and ".join(plural(count, word) for word, count in counts if count is not None)
