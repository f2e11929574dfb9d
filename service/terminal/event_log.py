"""The events of a study from its journal, a line each, as `locus logs` prints them; and how a study is followed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from search_spaces.roles import LETTERS
from search_spaces.study import Trial
from search_spaces.words import quoted
from service.analysis.format import left_out_words, stopped_words
from service.storage import editions
from service.storage.history import History
from service.storage.home import Home, StudyFolder
from service.storage.journal import (
    Confirms,
    Ended,
    Fact,
    FailedWith,
    Measured,
    Place,
    Planned,
    Started,
    StoppedAt,
    Tuned,
    read_on,
)
from trainables.recipe import Run
from trainables.recipe.code_digest import CodeDigests
from trainables.spec import SpecError


class EventLines:
    """Facts in words: a call returns a fact's line, or None for a fact that nobody waits for."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._owners: dict[str, tuple[Trial, int]] = {}
        self._known = 0, 0

    def __call__(self, fact: Fact) -> str | None:
        """A fact's line."""
        if isinstance(fact, Measured | StoppedAt | FailedWith | Ended) and self._owner(fact.run) is None:
            return f"{fact.run} {fact.fact}, a run of other data or values than the study has now"
        match fact:
            case Planned(role="trial" | "rival" as role, number=number, name=name):
                return f"#{LETTERS[role]}{number} {name} planned"
            case Planned(role="tuning"):
                trial = self.history.of("tuning")[-1]
                return f"#{trial.label} {trial.name} planned"
            case Tuned(arm=arm):
                chosen = self.history.tuning.chosen_trial(arm)
                if chosen is None:
                    return f"{quoted(arm)} keeps its own values, as every trial of its tuning diverged"
                return f"tuned: #{chosen.label} {chosen.name}"
            case Confirms(numbers=numbers, rivals=rivals):
                labels = [f"#{number}" for number in numbers] + [f"#r{number}" for number in rivals]
                return f"confirming {', '.join(labels)} on fresh seeds"
            case Started(label=label, seed=seed, attempt=attempt):
                return f"#{label} seed {seed} started" + (f", attempt {attempt}" if attempt > 1 else "")
            case Measured(epoch=epoch, values=values):
                trial, seed = self._owners[fact.run]
                metric, epochs = trial.score.metric, trial.recipe.optimizer.epochs
                value = f" {metric} {values[metric]:.4f}" if metric in values else ""
                return f"#{trial.label} seed {seed} epoch {epoch}/{epochs}{value}"
            case StoppedAt(epoch=0, cutoff=cutoff):
                trial, seed = self._owners[fact.run]
                return f"#{trial.label} seed {seed} {left_out_words(cutoff)}"
            case StoppedAt(epoch=epoch, cutoff=cutoff):
                trial, seed = self._owners[fact.run]
                return f"#{trial.label} seed {seed} {stopped_words(epoch, cutoff)}"
            case FailedWith(reason=reason):
                trial, seed = self._owners[fact.run]
                return f"#{trial.label} seed {seed} failed: {reason}"
            case Ended(outcome=outcome, reused=reused):
                trial, seed = self._owners[fact.run]
                return f"#{trial.label} seed {seed} {outcome}" + (", reused" if reused else "")
            case _:
                return None

    def _owner(self, key: str) -> tuple[Trial, int] | None:
        """The trial and the seed of a run; None if the study has no such run (its data may have changed since)."""
        known = len(self.history.trials), self.history.invalidations
        if key not in self._owners and known != self._known:
            self._known = known
            for trial in self.history.trials:
                for seed, run in self.history.runs(trial).items():
                    self._owners.setdefault(run.key, (trial, seed))
        return self._owners.get(key)


POLL_S = 0.5
"""Seconds between two looks at a journal that grows."""


def events(home: Home, id: str, *, run: str | None = None, follow: bool = False) -> Iterator[str]:
    """The events so far; with `follow`, until no driver runs the study.

    `run`: those of one run alone, by its key (or how it begins) or by its row and seed, such as 3.0.
    Raises: SpecError if no run has that name.
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
