"""Compares a study that was disturbed with one that was not: every number but the clock's."""

from __future__ import annotations

from pathlib import Path

from service.storage.home import Home
from service.storage.journal import Fact, read
from service.storage.outcomes import CLOCKED


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
