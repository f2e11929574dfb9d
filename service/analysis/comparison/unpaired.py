"""The difference of two trials whose seeds have nothing in common."""

from __future__ import annotations

import math
from collections.abc import Sequence

from service.analysis.statistics import Estimate, Interval, Scores, drawn, estimate, on_logits, over_draws


def unpaired(who: Scores, than: Scores) -> Estimate | None:
    """The mean of `who` minus that of `than`, whose seeds have nothing in common; None where either has no seed.

    Source: Welch 1947, The generalization of `Student's' problem when several different population variances are
    involved. Differs: the degrees of freedom are rounded down to a whole number, which widens the interval; the floor
    of `estimate` holds for each of the two; `over_draws`.
    """
    sides = who.sound, than.sound
    if not all(side.values for side in sides):
        return None
    ends = (who.scale.low - than.scale.high, who.scale.high - than.scale.low)
    twin = None
    if all(side.scale.logits for side in sides):
        twin = _welch([_mean(side, on_logits(side, [*side.values])) for side in sides])
    found = _welch([_mean(side, [*side.values.values()]) for side in sides], ends, twin)
    return over_draws(
        found, *(drawn([side], [sign], [*side.values]) for side, sign in zip(sides, (1.0, -1.0), strict=True))
    )


def _mean(side: Scores, values: Sequence[float]) -> Estimate:
    return estimate(values, side.scale.rounding, overlap=side.scale.overlap)


def _welch(means: Sequence[Estimate], ends: Interval = (-math.inf, math.inf), twin: Estimate | None = None) -> Estimate:
    """The difference of two means, with its error and degrees of freedom; without them where a mean has no error."""
    one, other = means
    n, mean = min(one.n, other.n), one.mean - other.mean
    if one.error is None or other.error is None:
        return Estimate(n, mean, low=ends[0], high=ends[1])
    both = math.hypot(one.error, other.error)
    parts = one.error**4 / (one.n - 1) + other.error**4 / (other.n - 1)
    df = max(1, math.floor(both**4 / parts * (1 + 1e-12))) if parts else one.n + other.n - 2
    return Estimate(n, mean, None, both, *ends, df, twin)
