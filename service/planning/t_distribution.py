"""Student's t distribution for whole degrees of freedom, without scipy: `locus status` needs it and must start fast."""

from __future__ import annotations

import math
from functools import cache


def cdf(t: float, df: int) -> float:
    """Returns the probability that Student's t with `df` degrees of freedom lies at or below `t`.

    Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4 (finite sums for whole degrees of freedom).
    Differs: nothing.
    """
    if math.isinf(t):
        return 1.0 if t > 0 else 0.0
    angle = math.atan(t / math.sqrt(df))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = df % 2 == 1
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for power in range(1 if odd else 0, df - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * cosine**2
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return min(1.0, max(0.0, (1 + inside) / 2))


@cache
def quantile(p: float, df: int) -> float:
    """Returns the t below which a share `p` of the distribution lies, found by bisection."""
    if p < 0.5:
        return -quantile(1 - p, df)
    low, high = 0.0, 1.0
    while cdf(high, df) < p and high < 1e12:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if cdf(middle, df) < p else (low, middle)
    return high
