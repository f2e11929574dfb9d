"""Finds the damaged files of a study's answers, and sets them aside, so that the next `locus run` makes them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from search_spaces.study import Edition
from search_spaces.words import plural
from service.planning.runs_ahead import LOST
from service.storage import probe_files
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import Ended, Fact, FailedWith, Journal, cut
from service.storage.outcomes import Outcomes, compare
from trainables.recipe.findings import LOOKS
from trainables.spec import LocusError


@dataclass(frozen=True)
class WrongAnswer:
    """What is wrong with the files of an answer. `check`: which check found it; `probe`: the probe whose file it is."""

    fact: Ended
    check: str
    sentence: str
    probe: str = ""


def answers_of(facts: Iterable[Fact], history: History) -> list[Ended]:
    """The facts of the answers that a study has; one that was lost is asked for again."""
    ended = {(fact.run, fact.code): fact for fact in facts if isinstance(fact, Ended)}  # the last one, where two are
    return [fact for place, fact in ended.items() if history.states[place].answered]


def wrong_answers(outcomes: Outcomes, history: History, ended: Iterable[Ended]) -> Iterator[WrongAnswer]:
    """What is wrong with the files of answers. Cost: reads them, and all weights."""
    keeps = "weights" in history.edition.study.keep
    parents = {run.key for trial in history.of("parent") for run in history.runs(trial).values()}
    for fact in ended:
        who = f"{fact.run} by {fact.code}"
        answered = outcomes.get(fact.run, fact.code)
        if answered is None:
            damaged = outcomes.path(fact.run, fact.code).exists()
            yield WrongAnswer(fact, "outcomes", f"{who} {'is damaged' if damaged else 'has no file'}")
            continue
        if answered.run.key != fact.run or answered.name != fact.code:
            yield WrongAnswer(fact, "keys", f"{who} holds {answered.run.key} by {answered.name}")
        measured = history.states[fact.run, fact.code].values
        if compare(measured, answered.curve):  # times differ where a run was trained again for its weights
            yield WrongAnswer(fact, "curves", f"{who} differs from the journal")
        for name in LOOKS:
            if damage := _damage(outcomes, fact, name):
                yield WrongAnswer(fact, "probes", f"the probe {name} of {who} is damaged: {damage}", name)
        kept = fact.outcome == "completed" and (keeps or fact.run in parents)
        if kept and not outcomes.has_sound_weights(fact.run, fact.code):
            there = outcomes.weights(fact.run, fact.code).exists()
            yield WrongAnswer(fact, "weights", f"{who} has {'damaged' if there else 'no'} weights")


def _damage(outcomes: Outcomes, fact: Ended, probe: str) -> str:
    """Why the file of a probe cannot be read; empty if it can, or where there is none."""
    path = outcomes.probe(fact.run, fact.code, probe)
    try:
        if path.exists():
            probe_files.read(path)
    except probe_files.ProbeFileError as error:
        return str(error)
    return ""


def repair(home: Home, edition: Edition) -> list[str]:
    """Sets aside what is damaged of a study's journal and answers; what was done, in sentences.

    Nothing is trained: the next `locus run` trains again what is missing then. No file is removed: each is kept beside,
    as `.damaged`. Raises: LocusError if the study was never run, JournalError if a driver runs it.
    """
    folder, outcomes = home.study(edition.id), Outcomes(home)
    if not folder.journal.exists():
        raise LocusError(f"{edition.id} was never run here")
    said = []
    fitting = History(edition, lambda recipe: "")
    if (line := cut(folder.journal, folder.lock, fitting.add)) is not None:
        why = f"the journal is cut at line {line}, which is no fact of {edition.id}"
        said.append(f"{why}; answers that are there are used again")
    with Journal(folder.journal, folder.lock) as journal:
        history = History.open(home, edition)
        lost: dict[tuple[str, str], str] = {}
        for wrong in [*wrong_answers(outcomes, history, answers_of(journal.facts, history))]:
            run, code = wrong.fact.run, wrong.fact.code
            if wrong.probe:
                outcomes.set_probe_aside(run, code, wrong.probe)
                said.append(f"{wrong.sentence}; it is set aside")
                continue
            outcomes.set_aside(run, code, answer=wrong.check in ("keys", "curves"))
            lost[run, code] = wrong.sentence
        for (run, code), sentence in lost.items():
            journal.write(FailedWith(run=run, code=code, reason=LOST, counts=False))
            said.append(f"{sentence}; what is damaged is set aside")
    if lost:
        said.append(f"{plural(len(lost), 'run')} to train again: locus run {edition.id}")
    return said
