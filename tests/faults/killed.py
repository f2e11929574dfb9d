"""Compares a study that was disturbed with one that was not: every number but the clock's."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from service.storage.facts import Fact
from service.storage.home import Home
from service.storage.journal import read
from service.storage.outcomes import CLOCKED
from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import Terminal
from trainables.training.checkpoint import read as read_tensors


def facts(home: Path, id: str) -> list[Fact]:
    journal = Home(home).study(id).journal
    return read(journal)[0] if journal.exists() else []


def numbers(told: list[Fact]) -> dict[str, dict[int, dict[str, float]]]:
    """Every run's curve, by its key, without the clock's measures."""
    curves: dict[str, dict[int, dict[str, float]]] = {}
    for fact in told:
        if fact.fact == "measured":
            values = {name: value for name, value in fact.values.items() if not name.startswith(CLOCKED)}
            curves.setdefault(fact.run, {}).setdefault(fact.epoch, values)
    return curves


def undisturbed(folder: Path, *command: str, id: str = "waves@long") -> dict[str, dict[int, dict[str, float]]]:
    """The numbers of the study of three encodings that nothing disturbs."""
    (folder / "study.py").write_text(ENCODINGS)
    with Terminal(folder) as terminal:
        terminal.do(*command)
        return numbers(facts(terminal.home, id))


def require_whole(terminal: Terminal, id: str, calm: dict) -> list[Fact]:
    """The facts of a study. It must have the numbers of the undisturbed one, each epoch once, and be verified."""
    told = facts(terminal.home, id)
    assert numbers(told) == calm
    assert measured_once(told)
    terminal.do("verify", id)
    return told


def shared(ours: dict, theirs: dict) -> set[str]:
    """The runs that are in both studies. Their numbers must be equal in all epochs of both."""
    runs = ours.keys() & theirs.keys()
    for run in runs:
        epochs = ours[run].keys() & theirs[run].keys()
        assert {epoch: ours[run][epoch] for epoch in epochs} == {epoch: theirs[run][epoch] for epoch in epochs}
    return runs


def of(told: list[Fact], kind: str) -> list[Any]:
    """The facts of a kind."""
    return [fact for fact in told if fact.fact == kind]


def ended(told: list[Fact]) -> dict[str, str]:
    """Every run that has its answer, with how it ended."""
    return {fact.run: fact.outcome for fact in told if fact.fact == "ended"}


def points(told: list[Fact]) -> list[tuple[str, int, dict]]:
    """What was planned, in order."""
    return [(fact.role, fact.number, fact.values) for fact in told if fact.fact == "planned"]


def trained_after_its_end(told: list[Fact]) -> list[str]:
    """Runs that were started again though they had ended."""
    done: set[str] = set()
    twice = []
    for fact in told:
        if fact.fact in ("ended", "stopped"):
            done.add(fact.run)
        if fact.fact == "started" and fact.run in done:
            twice.append(fact.run)
    return twice


def redone(home: Path, id: str) -> int:
    """How many measured epochs of unfinished runs no checkpoint holds now: these are trained again."""
    told, folder, lost = facts(home, id), Home(home).study(id), 0
    done = {fact.run for fact in told if fact.fact in ("ended", "stopped")}
    for run, curve in numbers(told).items():
        if run not in done:
            checkpoints = folder.root.glob(f"work/{run}/*/*/checkpoint.pt")
            kept = [len(read_tensors(file)["progress"]["curve"]) for file in checkpoints]
            lost += max(0, len(curve) - max(kept, default=0))
    return lost


def recovery_s(told: list[Fact], since: float, runs: Collection[str] | None = None) -> float | None:
    """Seconds from a time until an epoch was measured again, of some runs or of any. None: it never was."""
    measured = [fact for fact in told if fact.fact == "measured" and (runs is None or fact.run in runs)]
    return min((fact.time - since for fact in measured if fact.time > since), default=None)


def measured_once(told: list[Fact]) -> bool:
    """Whether no epoch of a run stands in the journal twice."""
    epochs = [(fact.run, fact.code, fact.epoch) for fact in told if fact.fact == "measured"]
    return len(epochs) == len(set(epochs))
