"""What the scores show about one claim: an estimate, and the p-values of its two tests. `verdicts` decides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from search_spaces.claim import (
    AtChance,
    AtLeast,
    Better,
    Claim,
    ClaimOfMaps,
    ClaimOfProbe,
    Equivalent,
    KeepsMore,
    NoWorse,
    ProbeAlike,
    ProbeAsAlike,
    ProbeBetween,
    ProbeRising,
    Ranked,
    Rising,
)
from search_spaces.words import listed, plural, quoted
from service.analysis.claims.region import Region
from service.analysis.format import between, fixed, number, signed
from service.analysis.statistics import FEWEST, Estimate, Scores, difference, slope


@dataclass(frozen=True)
class Evidence:
    """The numbers about a claim.

    `found`: the mean, the paired difference, or the slope; `region`: what the claim says of it; `refuting_tests`: how
    many tests could refute the claim, of which one must; `about`, `seeds`: how a sentence begins, and the seeds.
    """

    claim: Claim
    found: Estimate
    region: Region
    p_supports: float
    p_refutes: float
    about: str
    seeds: str
    refuting_tests: int = 1

    @property
    def margin(self) -> float:
        """How far the number lies inside the claim; negative outside."""
        return self.region.margin(self.found)

    def words(self, interval: str) -> str:
        """The measured number with its interval: `“best” has test score 0.9500 (90 % interval ..., 3 seeds)`."""
        return f"{self.about[:1].upper()}{self.about[1:]} ({interval}, {self.seeds})"


NEEDS_SCORES = (AtChance, NoWorse, Equivalent, ProbeBetween, ClaimOfMaps)
"""Claims on which a diverged seed decides nothing: at chance it may look like another trial, or like a low value."""


def lacking(claim: Claim, scores: Mapping[str, Scores]) -> str | None:
    """Why the scores cannot decide a claim, in a sentence; None where they can."""
    reasons = (_lacking(name, scores.get(name), claim) for name in claim.names)
    reason = next((reason for reason in reasons if reason), None)
    if reason or len(claim.names) == 1:
        return reason
    pairs = len(set.intersection(*({*scores[name].values} for name in claim.names)))
    if pairs < FEWEST:
        return f"{_listed(claim.names)} share {plural(pairs, 'seed')}; a claim needs {FEWEST}."
    return _unlike_itself(claim, scores[claim.than]) if isinstance(claim, ProbeAsAlike) else None


def _unlike_itself(claim: ProbeAsAlike, seeds: Scores) -> str | None:
    """Why maps cannot be compared with those of another seed: where these have nothing in common, all are as alike."""
    least = max(abs(end) for end in (claim.low, claim.high) if end is not None)
    mean = seeds.mean or 0.0
    if mean > least:
        return None
    who = quoted(claim.than)
    return (
        f"The maps of two seeds of {who} correlate by {fixed(mean)} only, so being as alike as they are says nothing."
    )


def _lacking(name: str, scores: Scores | None, claim: Claim) -> str | None:
    who = quoted(name)
    if scores is None or not scores.asked:
        said = "value of the probe" if isinstance(claim, ClaimOfProbe) else f"test score{claim.where}"
        return f"{who} has no {said} yet."
    if not scores.complete and isinstance(claim, KeepsMore):
        none = plural(scores.asked - scores.n, "seed")
        return f"{none} of {who} had nothing to keep: no answer yet, or a score at chance at the training's own side."
    if not scores.complete:
        said = "a value of the probe" if isinstance(claim, ClaimOfProbe) else "an answer"
        return f"Only {scores.n} of {plural(scores.asked, 'seed')} of {who} have {said}."
    if scores.n < FEWEST:
        return f"{who} has {_values(scores)}; a claim needs {FEWEST} seeds or more."
    if scores.diverged and isinstance(claim, NEEDS_SCORES):
        return f"{len(scores.diverged)} of {scores.n} seeds of {who} diverged, which shows no score at all."
    return None


def gather(claim: Claim, scores: Mapping[str, Scores]) -> Evidence:
    """The evidence on a claim whose scores lack nothing."""
    trials = [scores[name] for name in claim.names]
    match claim:
        case AtLeast(value=value):
            return _of_mean(claim, trials[0], Region(low=value))
        case AtChance(margin=margin):
            chance = trials[0].scale.chance
            return _of_mean(claim, trials[0], _around(chance, margin, f"chance, {number(chance)}"))
        case ProbeBetween(low=low, high=high) | ProbeAlike(low=low, high=high):
            return _of_mean(claim, trials[0], _between(low, high))
        case ProbeAsAlike(low=low, high=high):
            return _of_gap(claim, trials, _between(low, high))
        case Better(margin=margin) | KeepsMore(margin=margin):
            return _of_gap(claim, trials, Region(low=margin))
        case NoWorse(margin=margin):
            return _of_gap(claim, trials, Region(low=-margin))
        case Equivalent(margin=margin):
            return _of_gap(claim, trials, _around(0.0, margin, "0"))
        case Rising() | ProbeRising():
            return _of_slope(claim, trials)
        case Ranked():
            return _of_ranks(claim, scores)


def _around(center: float, margin: float, name: str) -> Region:
    return Region(center - margin, center + margin, f"the margin of {margin:g} around {name}")


def _between(low: float | None, high: float | None) -> Region:
    ends = (-math.inf if low is None else low, math.inf if high is None else high)
    return Region(*ends, name=f"{number(ends[0])} to {number(ends[1])}")


def _of_mean(claim: Claim, who: Scores, region: Region) -> Evidence:
    assert who.estimate is not None
    about = _mean_words(claim, claim.names[0], who)
    return _tested(claim, who.estimate, region, about, seeds_words(who))


def _of_gap(
    claim: Better | KeepsMore | NoWorse | Equivalent | ProbeAsAlike, pair: list[Scores], region: Region
) -> Evidence:
    gap = _known(difference(*pair))
    words = _gap_words(claim.who, claim.than, gap)
    if isinstance(claim, ProbeAsAlike):
        words = (
            f"{'; '.join(_mean_words(claim, *one) for one in zip(claim.names, pair, strict=True))}: {signed(gap.mean)}"
        )
    if isinstance(claim, KeepsMore):
        words = f"the share kept by {words.replace(' minus ', ' minus that of ')}"
    if pair[0] is pair[1]:  # such as the best point of a search, where it is the one that was tried first
        words = f"{_listed(claim.names)} are the same trial; {words}"
    return _tested(claim, gap, region, words, _seeds(gap, pair, "pair of seeds"))


def _of_slope(claim: Rising | ProbeRising, trials: list[Scores]) -> Evidence:
    found = _known(slope(trials))
    about = f"the slope along {claim.listed} is {signed(found.mean)} a step"
    return _tested(claim, found, Region(low=claim.margin), about, _seeds(found, trials, "seed"))


def _of_ranks(claim: Ranked, scores: Mapping[str, Scores]) -> Evidence:
    """Every neighboring pair must differ to support a ranking, so the weakest pair decides; one reversed pair refutes.

    Source: Berger 1982 (intersection-union test): the largest p supports, unadjusted. Refuting is a union of tests, so
    the smallest p is multiplied by their number (Bonferroni). Both ps are those of the same pair, as its two one-sided
    ps add up to 1.
    """
    region, pairs = Region(low=claim.margin), list(pairwise(claim.who))
    gaps = {pair: _known(difference(scores[pair[0]], scores[pair[1]])) for pair in pairs}
    weakest = max(pairs, key=lambda pair: (region.p_inside(gaps[pair]), -gaps[pair].mean))
    gap, trials = gaps[weakest], [scores[name] for name in weakest]
    few = "" if len(pairs) == 1 else "the weakest step, "
    return Evidence(
        claim, gap, region, region.p_inside(gap), min(1.0, len(pairs) * region.p_outside(gap)),
        f"{few}{_gap_words(*weakest, gap)}", _seeds(gap, trials, "pair of seeds"), refuting_tests=len(pairs),
    )  # fmt: skip


def _tested(claim: Claim, found: Estimate, region: Region, about: str, seeds: str) -> Evidence:
    return Evidence(claim, found, region, region.p_inside(found), region.p_outside(found), about, seeds, region.ends)


def _known(found: Estimate | None) -> Estimate:
    assert found is not None, "`lacking` comes first"
    return found


def _listed(names: tuple[str, ...]) -> str:
    return listed([quoted(name) for name in names])


def _mean_words(claim: Claim, name: str, scores: Scores) -> str:
    mean = fixed(scores.mean or 0.0)
    if isinstance(claim, ProbeAsAlike) and name == claim.than:
        return f"those of two seeds of {quoted(name)} by {mean}"
    if isinstance(claim, ClaimOfMaps):
        return f"the maps of {_listed(claim.names)} correlate by {mean}"
    if isinstance(claim, KeepsMore):
        return f"{quoted(name)} keeps {mean} of what it scores above chance{claim.where}"
    what = "" if isinstance(claim, ClaimOfProbe) else "test score "
    return f"{quoted(name)} has {what}{mean}"


def _gap_words(who: str, than: str, gap: Estimate) -> str:
    return f"{quoted(who)} minus {quoted(than)} is {signed(gap.mean)}"


def _seeds(found: Estimate, trials: list[Scores], noun: str) -> str:
    """How many seeds decided, and how many of the trials' seeds diverged."""
    fallen = len(frozenset().union(*(one.diverged for one in trials)))
    lost = f", {fallen} diverged and counted at chance" if fallen else ""
    return f"{plural(found.n, noun)}{lost}"


def score_words(claim: Claim, name: str, scores: Scores) -> str:
    """A trial's score in a sentence, with its 95 % interval where it has one: nothing is decided by it."""
    return f"{_mean_words(claim, name, scores)} ({spread_words(scores)})"


def spread_words(scores: Scores) -> str:
    """The 95 % interval and the seeds; the seeds alone where they are too few for an interval, or split in two."""
    interval = f"95 % interval {between(scores.interval)}, " if scores.interval and not scores.split else ""
    return f"{interval}{seeds_words(scores)}"


def seeds_words(scores: Scores) -> str:
    """How many seeds, and what is odd about them: `3 seeds split in two: 0.5000, 0.5000, 0.9800`."""
    fallen = f", {len(scores.diverged)} diverged and counted at chance" if scores.diverged else ""
    if scores.n < FEWEST:
        return f"{_values(scores)}{fallen}"
    split = f" split in two: {_list(scores)}" if scores.split else ""
    return f"{plural(scores.n, 'seed')}{split}{fallen}"


def _values(scores: Scores) -> str:
    """The seeds themselves, where they are too few for an interval: `2 seeds: 0.9700, 0.9800`."""
    return f"{plural(scores.n, 'seed')}: {_list(scores)}" if scores.n > 1 else plural(scores.n, "seed")


def _list(scores: Scores) -> str:
    return ", ".join(fixed(value) for value in sorted(scores.values.values()))
