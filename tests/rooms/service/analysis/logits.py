"""The tests of scores written down once more, with numpy and scipy: as they stand, and on their second scale."""

import numpy as np
from scipy import stats

IMAGES = 1000
FLOOR = 1 / IMAGES / 12**0.5


def second(values, images=IMAGES):
    """The places on the second scale, the way back, and the slope at the mean place. `images`: 0 for R²."""
    values = np.asarray(values)
    if not images:
        places = -np.log(1 - values + 1e-4)
        return places, lambda place: 1 + 1e-4 - np.exp(-place), np.exp(-places.mean())
    places = np.log((values * images + 0.5) / (images - values * images + 0.5))
    share = 1 / (1 + np.exp(-places.mean()))
    slope = share * (1 - share) * (images + 1) / images
    return places, lambda place: ((images + 1) / (1 + np.exp(-place)) - 0.5) / images, slope


def on_logits(values, images=IMAGES):
    """For each score one such that their mean has the mean place, and their spread is that of the places."""
    places, back, slope = second(values, images)
    return back(places.mean()) + slope * (places - places.mean())


def one_sided(gaps, line, floor, side):
    """The p of a one-sided t-test that the mean lies above a line (`greater`), or below it."""
    gaps = np.asarray(gaps)
    t = (gaps.mean() - line) / max(gaps.std(ddof=1) / len(gaps) ** 0.5, floor)
    return stats.t.sf(t, len(gaps) - 1) if side == "greater" else stats.t.cdf(t, len(gaps) - 1)


def paired_p(who, than, line=0.0, side="greater", images=IMAGES):
    """The one-sided p of a paired difference: the larger one of both tests."""
    gaps = np.subtract(who, than), np.subtract(on_logits(who, images), on_logits(than, images))
    floor = 2**0.5 / images / 12**0.5 if images else 0.0
    return max(one_sided(some, line, floor, side) for some in gaps)


def two_sided(who, than):
    """The two-sided p of a paired difference."""
    return min(1.0, 2 * min(paired_p(who, than, side=side) for side in ("greater", "less")))


def mean_interval(values, level, images=IMAGES):
    """The interval of a mean at so much on each side: it holds that of the scores and that of the second scale."""
    values, floor = np.asarray(values), 1 / images / 12**0.5 if images else 0.0
    places, back, slope = second(values, images)
    half = stats.t.ppf(1 - level, len(values) - 1)
    near = half * max(stats.sem(values), floor)
    far = half * max(stats.sem(places), floor / slope)
    low, high = (back(places.mean() + side * far) for side in (-1, 1))
    return max(0.0 if images else -np.inf, min(values.mean() - near, low)), min(1.0, max(values.mean() + near, high))
