"""How large a paired difference is beside its spread over seeds, with an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from service.analysis.statistics import CONFIDENCE, Estimate, Interval, of_mean

LARGE = 500.0
"""From this t on the normal part of the noncentral t distribution is nothing beside the spread's own uncertainty."""


@dataclass(frozen=True)
class EffectSize:
    """A difference in units of its standard deviation over seeds, corrected for few seeds, with a 95 % interval."""

    value: float
    interval: Interval


def effect_size(gap: Estimate) -> EffectSize | None:
    """The standardized paired difference (d_z) with Hedges' correction; None for too few pairs, or without spread.

    Cost: some milliseconds.
    Source: Cohen 1988 (d_z); Hedges 1981 (the exact correction); the interval turns the noncentral t distribution
    around (Steiger and Fouladi 1997), and is corrected as the value is. Differs: the spread has `estimate`'s floor.
    """
    if not gap.testable or not gap.error:
        return None
    t, df = gap.mean / gap.error, gap.n - 1
    size = correction(df) * of_mean(gap.n, gap.overlap)
    low, high = (noncentrality(t, df, p) for p in ((1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2))
    return EffectSize(t * size, (low * size, high * size))


def correction(df: int) -> float:
    """By what a standardized difference of few values must be multiplied to be right on average.

    Source: Hedges 1981, Distribution theory for Glass's estimator of effect size, equation 6e.
    """
    return math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)


def noncentrality(t: float, df: int, p: float) -> float:
    """The noncentrality at which a noncentral t lies at or below `t` with probability `p`.

    Differs: far from 0 the normal part is left out, as scipy's inversion does not end there; the error is below 1 %.
    """
    from scipy.special import chdtri, nctdtrinc  # here, for the commands that only look must start without scipy

    if t < 0:
        return -noncentrality(-t, df, 1 - p)
    if t > LARGE:
        return t * math.sqrt(float(chdtri(df, p)) / df)
    return float(nctdtrinc(df, p, t))
