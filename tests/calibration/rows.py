"""One number of a calibration beside its bar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What a simulation found, and what it must be.

    `what`: in words; `found`: a share, or a ratio; `bar`: its limit, None where no rule can keep one; `at_most`:
    whether `found` must be that or less, else that or more; `error`: the standard error of `found` over repetitions.
    """

    what: str
    found: float
    bar: float | None
    at_most: bool = True
    error: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the bar is met, within two standard errors of the simulation."""
        return self.away <= 2 * self.error

    @property
    def away(self) -> float:
        """By how much the bar is missed; negative where it is met, 0 without one."""
        if self.bar is None:
            return 0.0
        return self.found - self.bar if self.at_most else self.bar - self.found

    def __str__(self) -> str:
        found = f"{self.what:<86} {self.found:7.4f} +- {self.error:.4f}"
        if self.bar is None:
            return found
        sign = "<=" if self.at_most else ">="
        return f"{found}  {sign} {self.bar:g}{'' if self.holds else '  MISSED'}"


def share(what: str, hits: Sequence[bool], bar: float | None = None, *, at_most: bool = True) -> Row:
    """The share of repetitions in which something happened, with its binomial error at the bar or, without one, there.

    Without repetitions the bar is met.
    """
    found = sum(hits) / len(hits) if hits else bar or 0.0
    p = found if bar is None else bar
    return Row(what, found, bar, at_most, (p * (1 - p) / max(1, len(hits))) ** 0.5)


def show(rows: Iterable[Row]) -> int:
    """Prints rows as they come; how many miss their bar."""
    missed = 0
    for row in rows:
        print(row, flush=True)
        missed += not row.holds
    return missed
