"""Differences of trials, seed by seed, and several tests together: ps adjusted by Holm and for looks, and intervals
that agree with them.
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
    """Returns `who` minus `than`, paired over the seeds that both have; None for none.

    Source: the paired t-test. Differs: `contrast`.
    """
    return contrast((who, than), (1.0, -1.0), among, least)


def contrast(
    trials: Sequence[Scores],
    weights: Sequence[float],
    among: Iterable[int] | None = None,
    least: float = LEAST_IMAGES,
) -> Estimate | None:
    """Returns the sum of weight times score, seed by seed, over the seeds that all trials have; None for none.

    `among`: the seeds that are compared, where not all are; `least`: see `over_images`. The twin asks the same of the
    scores that belong to the mean positions on the second scale; each seed stands for what its position moves that sum
    by (the delta method).
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
    """Returns a score for each seed; their mean is the score of the mean position, their spread that of positions."""
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
    """A p-value adjusted for `tests` tests together and for looks, and the level that the unadjusted one was held to.

    The unadjusted p lies below `level` exactly where `p` lies below 0.05, so an interval at `level` agrees with `p`.
    """

    p: float
    level: float
    tests: int = 1

    @property
    def significant(self) -> bool:
        """Whether the test found something."""
        return self.p < ALPHA


def holm(ps: Mapping[str, float], look: int = 1) -> dict[str, Adjusted]:
    """Adjusts p-values, by name, for having tested all of them, at this look and at others.

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
    """A difference of test scores, `who` minus `than`, with its p adjusted for all differences of its table and looks.

    `claimed`: whether a claim asks which of the two is better. Such a pair is tested once: its p, level and interval
    are those of the claim. `later`: what the study has at its present look, where an earlier one found this difference:
    what was found stays.
    """

    who: Scores
    than: Scores
    estimate: Estimate
    adjusted: Adjusted | None
    claimed: bool = False
    later: Difference | None = None

    @property
    def mean(self) -> float:
        """The mean difference."""
        return self.estimate.mean

    @property
    def p(self) -> float | None:
        """The adjusted p, two-sided; None for too few pairs."""
        return self.adjusted.p if self.adjusted else None

    @property
    def p_words(self) -> str:
        """The p in a sentence, with the seeds: `= 0.012, 5 seeds`."""
        return f"{p_text(self.p)}, {self.seeds}"

    @property
    def significant(self) -> bool:
        """Whether the adjusted test found something."""
        return self.adjusted is not None and self.adjusted.significant

    @property
    def interval(self) -> Interval | None:
        """The simultaneous 95 % interval: it leaves out 0 exactly where the test found something."""
        return self.estimate.interval(1 - self.adjusted.level) if self.adjusted else None

    @property
    def seeds(self) -> str:
        """The pairs of seeds; where an earlier look found it, what later seeds say: `5 seeds; with 7: 0.0610`."""
        later = self.later
        if later is None:
            return plural(self.estimate.n, "seed")
        p = f", p {p_text(later.p)}" if later.p is not None else ""
        return f"{plural(self.estimate.n, 'seed')}; with {later.estimate.n}: {fixed(later.mean)}{p}"

    @property
    def sureness(self) -> str:
        """How sure it is, in a sentence: `95 % interval 0.0100 to 0.0200, p = 0.012, 5 seeds`."""
        return f"95 % interval {between(self.interval)}, p {self.p_words}" if self.adjusted else self.seeds


def staying(now: Mapping[str, Difference], before: Mapping[str, Difference]) -> dict[str, Difference]:
    """Returns differences, by name, where what an earlier look found stays; the present look stands below it."""
    significant = {name: gap for name, gap in before.items() if gap.significant}
    return {name: replace(significant[name], later=gap) if name in significant else gap for name, gap in now.items()}


def compare_best(best: str, trials: Mapping[str, Scores], look: int = 1) -> dict[str, Difference]:
    """Compares the best of some trials with each other one, paired by seed: best minus other.

    The best was chosen among all, so all pairs of trials are tested together: with the others alone, one of them would
    be told apart from the best of equal trials far too often.
    """
    order = [best, *(name for name in trials if name != best)]
    pairs = {(who, than): (trials[who], trials[than]) for who, than in combinations(order, 2)}
    named = {f"{who}\n{than}": pair for (who, than), pair in pairs.items()}
    gaps = together(subtracted(named), look)
    return {than: gaps[name] for name, (who, than) in zip(named, pairs, strict=True) if who == best and name in gaps}


Gap = tuple[Scores, Scores, Estimate]
"""Two trials, and the first minus the second."""


def subtracted(pairs: Mapping[str, tuple[Scores, Scores]]) -> dict[str, Gap]:
    """Returns the difference of each pair of trials that share a seed, by name."""
    gaps = {name: (who, than, difference(who, than)) for name, (who, than) in pairs.items()}
    return {name: (who, than, gap) for name, (who, than, gap) in gaps.items() if gap}


def together(gaps: Mapping[str, Gap], look: int = 1) -> dict[str, Difference]:
    """Tests differences together, by name."""
    tests = holm({name: p for name, (*_, gap) in gaps.items() if (p := gap.p()) is not None}, look)
    return {name: Difference(*gap, tests.get(name)) for name, gap in gaps.items()}
