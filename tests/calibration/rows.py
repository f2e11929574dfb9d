"""One number of a calibration beside its bar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What a simulation found, and what it must be.

    `what`: in words; `found`: a share, or a ratio; `bar`: its limit; `at_most`: whether `found` must be that or less,
    else that or more; `error`: the standard error of `found` over repetitions.
    """

    what: str
    found: float
    bar: float
    at_most: bool = True
    error: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the bar is met, within two standard errors of the simulation."""
        return self.away <= 2 * self.error

    @property
    def away(self) -> float:
        """By how much the bar is missed; negative where it is met."""
        return self.found - self.bar if self.at_most else self.bar - self.found

    def __str__(self) -> str:
        sign = "<=" if self.at_most else ">="
        word = "" if self.holds else "  MISSED"
        return f"{self.what:<86} {self.found:7.4f} +- {self.error:.4f}  {sign} {self.bar:g}{word}"


def share(what: str, hits: Sequence[bool], bar: float, *, at_most: bool = True) -> Row:
    """The share of repetitions in which something happened, with its binomial error at the bar."""
    return Row(what, sum(hits) / len(hits), bar, at_most, (bar * (1 - bar) / len(hits)) ** 0.5)


def show(rows: Iterable[Row]) -> int:
    """Prints rows as they come; how many miss their bar."""
    missed = 0
    for row in rows:
        print(row, flush=True)
        missed += not row.holds
    return missed
