"""Paired differences between trials, tested together: each with an interval that agrees with its adjusted p."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.analysis.statistics import ALPHA, Adjusted, Estimate, Interval, Scores, difference, holm


@dataclass(frozen=True)
class Difference:
    """A paired difference of test scores, with its p adjusted for all differences of its table (Holm)."""

    estimate: Estimate
    adjusted: Adjusted | None

    @property
    def mean(self) -> float:
        """The mean difference."""
        return self.estimate.mean

    @property
    def p(self) -> float | None:
        """The adjusted two-sided p; None for too few pairs."""
        return self.adjusted.p if self.adjusted else None

    @property
    def significant(self) -> bool:
        """Whether the adjusted p is below ALPHA."""
        return self.p is not None and self.p < ALPHA

    @property
    def interval(self) -> Interval | None:
        """The interval at the level of Holm's test: it leaves out 0 exactly where `p` is below ALPHA."""
        return self.estimate.interval(self.confidence) if self.adjusted else None

    @property
    def confidence(self) -> float:
        """The level of `interval`."""
        return 1 - self.adjusted.level if self.adjusted else 0.0


def compare(one: Scores, others: Mapping[str, Scores], *, to: bool) -> dict[str, Difference]:
    """Paired differences between one trial and others: others minus one, or (`to`) one minus others."""
    return compare_pairs({name: (one, other) if to else (other, one) for name, other in others.items()})


def compare_pairs(pairs: Mapping[str, tuple[Scores, Scores]]) -> dict[str, Difference]:
    """Paired differences by name: the first of each two minus the second, tested together."""
    found = {name: difference(who, than) for name, (who, than) in pairs.items()}
    return together({name: gap for name, gap in found.items() if gap is not None})


def together(gaps: Mapping[str, Estimate]) -> dict[str, Difference]:
    """Differences by name, tested together."""
    adjusted = holm({name: p for name, gap in gaps.items() if (p := gap.p()) is not None})
    return {name: Difference(gap, adjusted.get(name)) for name, gap in gaps.items()}
