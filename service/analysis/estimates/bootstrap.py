"""Bootstrap intervals, shown beside Student's: they do not ask that the scores of seeds are normal."""

from __future__ import annotations

from collections.abc import Sequence

from service.analysis.statistics import CONFIDENCE, Interval

FEWEST_BOOTSTRAP = 6
"""With fewer values no interval is shown. Of 3 normal values a 95 % interval holds the mean 72 % of the time, of 6
values 85 %, of 20 values 93 %: so a page says that it is too narrow, and Student's interval stands beside it."""
RESAMPLES = 9999


def bootstrap_interval(values: Sequence[float]) -> Interval | None:
    """The 95 % interval of the mean by the BCa bootstrap; None for fewer than six values, or equal ones.

    The draws are the same each time. Cost: some milliseconds.
    Source: Efron 1987, Better bootstrap confidence intervals; scipy.stats.bootstrap.
    """
    import numpy as np
    from scipy.stats import bootstrap

    if len(values) < FEWEST_BOOTSTRAP or max(values) == min(values):
        return None
    found = bootstrap(
        (np.asarray(values),), np.mean, n_resamples=RESAMPLES, confidence_level=CONFIDENCE, method="BCa", rng=0
    ).confidence_interval
    return float(found.low), float(found.high)
