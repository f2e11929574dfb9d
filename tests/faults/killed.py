"""Compares a study that was disturbed with one that was not: every number but the clock's."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from service.storage.facts import Fact
from service.storage.home import Home
from service.storage.journal import read
from service.storage.outcomes import CLOCKED
from trainables.training.checkpoint import read as read_tensors


def facts(home: Path, id: str) -> list[Fact]:
    return read(Home(home).study(id).journal)[0]


def numbers(told: list[Fact]) -> dict[str, dict[int, dict[str, float]]]:
    """Every run's curve, by its key, without the clock's measures."""
    curves: dict[str, dict[int, dict[str, float]]] = {}
    for fact in told:
        if fact.fact == "measured":
            values = {name: value for name, value in fact.values.items() if not name.startswith(CLOCKED)}
            curves.setdefault(fact.run, {}).setdefault(fact.epoch, values)
    return curves


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
            kept = [_epochs(file) for file in folder.root.glob(f"work/{run}/*/*/checkpoint.pt")]
            lost += max(0, len(curve) - max(kept, default=0))
    return lost


def _epochs(checkpoint: Path) -> int:
    return len(read_tensors(checkpoint)["progress"]["curve"])


def recovery_s(told: list[Fact], since: float, runs: Collection[str] | None = None) -> float | None:
    """Seconds from a time until an epoch was measured again, of some runs or of any. None: it never was."""
    measured = [fact for fact in told if fact.fact == "measured" and (runs is None or fact.run in runs)]
    return min((fact.time - since for fact in measured if fact.time > since), default=None)


def measured_once(told: list[Fact]) -> bool:
    """Whether no epoch of a run stands in the journal twice."""
    epochs = [(fact.run, fact.code, fact.epoch) for fact in told if fact.fact == "measured"]
    return len(epochs) == len(set(epochs))
