"""The tests of accuracies written down once more, with numpy and scipy: as they stand, and on logits."""

import numpy as np
from scipy import stats

IMAGES = 1000
FLOOR = 1 / IMAGES / 12**0.5


def on_logits(values, images=IMAGES):
    """For each score one such that their mean has the mean logit, and their spread is that of the logits."""
    right = np.asarray(values) * images
    logits = np.log((right + 0.5) / (images - right + 0.5))
    share = 1 / (1 + np.exp(-logits.mean()))
    center = (share * (images + 1) - 0.5) / images
    return center + share * (1 - share) * (images + 1) / images * (logits - logits.mean())


def one_sided(gaps, line, floor, side):
    """The p of a one-sided t-test that the mean lies above a line (`greater`), or below it."""
    gaps = np.asarray(gaps)
    error = max(gaps.std(ddof=1) / len(gaps) ** 0.5, floor)
    t = (gaps.mean() - line) / error
    return stats.t.sf(t, len(gaps) - 1) if side == "greater" else stats.t.cdf(t, len(gaps) - 1)


def paired_p(who, than, line=0.0, side="greater"):
    """The p of a paired difference of accuracies: the larger one of both tests."""
    plain, logits = np.subtract(who, than), np.subtract(on_logits(who), on_logits(than))
    return max(one_sided(gaps, line, 2**0.5 * FLOOR, side) for gaps in (plain, logits))


def two_sided(who, than):
    """The two-sided p of a paired difference."""
    return min(1.0, 2 * min(paired_p(who, than, side=side) for side in ("greater", "less")))


def mean_interval(values, level, images=IMAGES):
    """The interval of a mean at so much on each side: it holds that of the scores and that of the logits."""
    values, floor = np.asarray(values), 1 / images / 12**0.5
    right = values * images
    logits = np.log((right + 0.5) / (images - right + 0.5))
    share = 1 / (1 + np.exp(-logits.mean()))
    half = stats.t.ppf(1 - level, len(values) - 1)
    plain = half * max(values.std(ddof=1) / len(values) ** 0.5, floor)
    slope = share * (1 - share) * (images + 1) / images
    far = half * max(logits.std(ddof=1) / len(values) ** 0.5, floor / slope)
    low, high = ((1 / (1 + np.exp(-(logits.mean() + s * far))) * (images + 1) - 0.5) / images for s in (-1, 1))
    return max(0.0, min(values.mean() - plain, low)), min(1.0, max(values.mean() + plain, high))
