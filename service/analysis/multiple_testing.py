"""Differences of trials, paired by seed, and several tests together: p-values adjusted by Holm and for looks (times at
which verdicts are computed), and intervals that agree with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from search_spaces.words import plural
from service.analysis.format import between, fixed, p_text
from service.analysis.statistics import (
    ALPHA,
    LEAST_IMAGES,
    Estimate,
    Interval,
    Scores,
    drawn,
    estimate,
    over_draws,
    over_images,
    share_of,
)


def difference(
    who: Scores, than: Scores, among: Iterable[int] | None = None, least: float = LEAST_IMAGES
) -> Estimate | None:
    """Returns the mean of `who` minus `than`, paired over the seeds that both have; None if they share no seed.

    Source: the paired t-test. Differs: `contrast`.
    """
    return contrast((who, than), (1.0, -1.0), among, least)


def contrast(
    trials: Sequence[Scores],
    weights: Sequence[float],
    among: Iterable[int] | None = None,
    least: float = LEAST_IMAGES,
) -> Estimate | None:
    """Returns the mean over seeds of the weighted sum of the trials' scores; None if the trials share no seed.

    `among` names the seeds that are compared, if not all are; `least` is explained at `over_images`. The twin of the
    estimate asks the same of the scores at the mean positions on the second scale; each seed stands there for how far
    its position moves that sum (the delta method).
    Differs: `estimate`'s floor, here of so many rounded scores.
    """
    columns = [{*trial.values} for trial in trials] + ([] if among is None else [{*among}])
    seeds = sorted(set.intersection(*columns))
    if not seeds:
        return None
    parts = [(trial, weight) for trial, weight in zip(trials, weights, strict=True) if weight]
    floor = math.hypot(*(weight * trial.scale.rounding for trial, weight in parts))
    overlap = max((trial.scale.overlap for trial, _ in parts), default=0.0)
    ends = [sorted((weight * trial.scale.low, weight * trial.scale.high)) for trial, weight in parts]
    sums = [sum(weight * trial.values[seed] for trial, weight in parts) for seed in seeds]
    twin = None
    if all(trial.scale.curve for trial, _ in parts):
        curved = [[weight * value for value in on_curve(trial, seeds)] for trial, weight in parts]
        twin = estimate([math.fsum(column) for column in zip(*curved, strict=True)], floor, overlap=overlap)
    limits = sum(low for low, _ in ends), sum(high for _, high in ends)
    over_seeds = estimate(sums, floor, limits, twin=twin, overlap=overlap)
    weighted, factors = [trial for trial, _ in parts], [weight for _, weight in parts]
    return over_images(over_draws(over_seeds, drawn(weighted, factors, seeds)), weighted, factors, seeds, least)


def on_curve(scores: Scores, seeds: Sequence[int]) -> list[float]:
    """Returns for each seed the score at the mean position on the second scale, moved by the seed's distance from it.

    The mean of these scores is the score at the mean position; their spread follows from that of the positions.
    """
    curve = scores.scale.curve
    assert curve is not None
    on = [curve.of(scores.values[seed]) for seed in seeds]
    center = fmean(on)
    return [curve.score(center) + curve.slope(center) * (position - center) for position in on]


def slope_weights(trials: int) -> list[float]:
    """Returns the weight of each score in the slope of a least-squares line; the trials lie at 0, 1, 2 and so on."""
    center = (trials - 1) / 2
    square = sum((index - center) ** 2 for index in range(trials))
    return [(index - center) / square for index in range(trials)]


@dataclass(frozen=True)
class Adjusted:
    """A p-value that is adjusted for making `tests` tests together, and for looks.

    The unadjusted p-value was compared with `level`. It lies below `level` exactly if `p` lies below 0.05, so an
    interval at `level` agrees with `p`.
    """

    p: float
    level: float
    tests: int = 1

    @property
    def significant(self) -> bool:
        """Whether the adjusted p-value lies below 0.05."""
        return self.p < ALPHA


def holm(ps: Mapping[str, float], look: int = 1) -> dict[str, Adjusted]:
    """Adjusts the p-value of each named test for having made all these tests, at this look and at others.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure; an interval at each test's own level:
    Serlin 1993, Confidence intervals and the scientific method. Differs: adjusted p-values are returned, the running
    maximum of (m - rank) p / `share_of(look)`, cut at 1.
    """
    adjusted: dict[str, Adjusted] = {}
    share = share_of(look)
    largest, level, going = 0.0, ALPHA * share, True
    for rank, name in enumerate(sorted(ps, key=lambda name: ps[name])):
        tests = len(ps) - rank
        level = ALPHA * share / tests if going else level
        going = going and ps[name] < level
        largest = max(largest, min(1.0, tests * ps[name] / share))
        adjusted[name] = Adjusted(largest, level, len(ps))
    return {name: adjusted[name] for name in ps}


@dataclass(frozen=True)
class Difference:
    """A difference of test scores, `who` minus `than`; its p-value is adjusted for all tests of its table and looks.

    `adjusted` is None if the difference was not tested. `claimed` says whether a claim asks which of the two is better:
    such a pair is tested once, so it has the p-value, level and interval of the claim. If an earlier look found this
    difference, it stays, and `later` is the difference at the present look.
    """

    who: Scores
    than: Scores
    estimate: Estimate
    adjusted: Adjusted | None
    claimed: bool = False
    later: Difference | None = None

    @property
    def mean(self) -> float:
        """The mean difference over seeds."""
        return self.estimate.mean

    @property
    def p(self) -> float | None:
        """The adjusted two-sided p-value; None if the difference was not tested, for instance with too few pairs."""
        return self.adjusted.p if self.adjusted else None

    @property
    def p_words(self) -> str:
        """The p-value and the number of seeds, for a sentence: `= 0.012, 5 seeds`."""
        return f"{p_text(self.p)}, {self.seeds}"

    @property
    def significant(self) -> bool:
        """Whether the adjusted p-value lies below 0.05."""
        return self.adjusted is not None and self.adjusted.significant

    @property
    def interval(self) -> Interval | None:
        """The simultaneous 95 % interval, which leaves out 0 exactly if `significant` is True; None without a test."""
        return self.estimate.interval(1 - self.adjusted.level) if self.adjusted else None

    @property
    def seeds(self) -> str:
        """The number of paired seeds and, if `later` is not None, what it says: `5 seeds; with 7: 0.0610`."""
        later = self.later
        if later is None:
            return plural(self.estimate.n, "seed")
        p = f", p {p_text(later.p)}" if later.p is not None else ""
        return f"{plural(self.estimate.n, 'seed')}; with {later.estimate.n}: {fixed(later.mean)}{p}"

    @property
    def sureness(self) -> str:
        """How sure the difference is, in words: `95 % interval 0.0100 to 0.0200, p = 0.012, 5 seeds`."""
        return f"95 % interval {between(self.interval)}, p {self.p_words}" if self.adjusted else self.seeds


def staying(now: Mapping[str, Difference], before: Mapping[str, Difference]) -> dict[str, Difference]:
    """Returns the differences by name: the earlier one if the earlier look found it, else the present one.

    An earlier difference has the present one as `later`.
    """
    significant = {name: gap for name, gap in before.items() if gap.significant}
    return {name: replace(significant[name], later=gap) if name in significant else gap for name, gap in now.items()}


def compare_best(best: str, trials: Mapping[str, Scores], look: int = 1) -> dict[str, Difference]:
    """Compares the best trial with each other one: returns best minus other, paired by seed, by the name of the other.

    The best trial was chosen among all, so all pairs of trials are tested together. If only its own pairs were, the
    best of equal trials would seem better than another far too often.
    """
    order = [best, *(name for name in trials if name != best)]
    pairs = {(who, than): (trials[who], trials[than]) for who, than in combinations(order, 2)}
    named = {f"{who}\n{than}": pair for (who, than), pair in pairs.items()}
    gaps = together(subtracted(named), look)
    return {than: gaps[name] for name, (who, than) in zip(named, pairs, strict=True) if who == best and name in gaps}


Gap = tuple[Scores, Scores, Estimate]
"""The scores of two trials, and those of the first minus those of the second."""


def subtracted(pairs: Mapping[str, tuple[Scores, Scores]]) -> dict[str, Gap]:
    """Returns, by the name of the pair, the difference of each pair of trials that share a seed."""
    gaps = {name: (who, than, difference(who, than)) for name, (who, than) in pairs.items()}
    return {name: (who, than, gap) for name, (who, than, gap) in gaps.items() if gap}


def together(gaps: Mapping[str, Gap], look: int = 1) -> dict[str, Difference]:
    """Returns the named differences with p-values that are adjusted for testing all of them together."""
    tests = holm({name: p for name, (*_, gap) in gaps.items() if (p := gap.p()) is not None}, look)
    return {name: Difference(*gap, tests.get(name)) for name, gap in gaps.items()}
