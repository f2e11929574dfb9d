"""What a claim says of a number: that it lies between two ends. The tests of it, and where an interval lies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from service.analysis.format import number
from service.analysis.statistics import Estimate

Word = Literal["SUPPORTED", "REFUTED", "INCONCLUSIVE", "NOT JUDGED"]


@dataclass(frozen=True)
class Region:
    """The numbers from `low` to `high`, either of which may be infinite. `name`: in words, where it has two ends."""

    low: float = -math.inf
    high: float = math.inf
    name: str = ""

    @property
    def ends(self) -> int:
        """How many ends it has: on so many sides a claim can fail."""
        return math.isfinite(self.low) + math.isfinite(self.high)

    def p_inside(self, found: Estimate) -> float:
        """The p of the tests that the true mean lies inside: a one-sided t-test at each end, and the larger p.

        Source: Schuirmann 1987 (TOST), where there are two ends.
        """
        return max(self._ps(found.p_above(self.low), found.p_below(self.high)))

    def p_outside(self, found: Estimate) -> float:
        """The p of the tests that the true mean lies outside.

        With two ends this is a union of two tests, so the p is twice the smaller one (Bonferroni).
        """
        return min(1.0, self.ends * min(self._ps(found.p_below(self.low), found.p_above(self.high))))

    def _ps(self, at_low: float | None, at_high: float | None) -> list[float]:
        """The ps at the ends that there are."""
        known = [(self.low, at_low), (self.high, at_high)]
        ps = [p for end, p in known if math.isfinite(end) and p is not None]
        assert ps, "an estimate that can be tested comes first"
        return ps

    def margin(self, found: Estimate) -> float:
        """How far a mean lies inside; negative outside."""
        return min(found.mean - self.low, self.high - found.mean)

    def distances(self, found: Estimate) -> list[float]:
        """How far an interval may reach from a mean and still decide: to every end from inside, to one from outside."""
        known = [abs(found.mean - end) for end in (self.low, self.high) if math.isfinite(end)]
        return known if self.margin(found) > 0 else [min(known)]

    def place(self, word: Word) -> str:
        """Where the interval that decided lies."""
        if self.ends == 2:
            where = {"SUPPORTED": "inside", "REFUTED": "outside"}.get(word, "partly outside")
            return f"the interval lies {where} {self.name}"
        above, line = math.isfinite(self.low), self.low if math.isfinite(self.low) else self.high
        sides = ("lies above", "lies below") if above else ("lies below", "lies above")
        where = {"SUPPORTED": sides[0], "REFUTED": sides[1]}.get(word, "contains")
        return f"the interval {where} {number(line)}"
