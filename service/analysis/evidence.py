"""What the scores show about one claim: an estimate, and the p-values of its two tests. `verdicts` decides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from search_spaces.claim import (
    AtChance,
    AtLeast,
    Better,
    Claim,
    ClaimOfMaps,
    ClaimOfProbe,
    ClaimOfSeeds,
    Equivalent,
    KeepsMore,
    NoWorse,
    ProbeAlike,
    ProbeAsAlike,
    ProbeBetween,
    ProbeRising,
    Rising,
)
from service.analysis.findings import Finding, finding
from service.analysis.multiple_testing import Adjusted, contrast, difference, slope_weights
from service.analysis.scores import group_words, most_that_fail, unseen_words
from service.analysis.statistics import ALIKE_IMAGES, FEWEST, LEAST_IMAGES, Estimate, Scores

Word = Literal["SUPPORTED", "REFUTED", "INCONCLUSIVE", "NOT JUDGED"]


@dataclass(frozen=True)
class Region:
    """The numbers from `low` to `high`, either of which may be infinite. `name` describes a region with two ends."""

    low: float = -math.inf
    high: float = math.inf
    name: Finding | None = None

    def ps(self, estimate: Estimate) -> tuple[float, float]:
        """Returns the p-values of two tests: that the true mean lies inside the region, and that it lies outside.

        If a p-value is below a level, the interval of this level lies wholly inside, or wholly outside.
        Source: Schuirmann 1987 (TOST), where there are two ends. Differs: a p is doubled, as every p is two-sided.
        """
        low = (estimate.p_above(self.low), estimate.p_below(self.low)) if math.isfinite(self.low) else (None, None)
        high = (estimate.p_below(self.high), estimate.p_above(self.high)) if math.isfinite(self.high) else (None, None)
        inside, outside = ([p for p in side if p is not None] for side in zip(low, high, strict=True))
        assert inside, "an estimate that can be tested comes first"
        return min(1.0, 2 * max(inside)), min(1.0, 2 * min(outside))

    def position(self, word: Word) -> Finding:
        """Returns a phrase that says where the interval that led to the verdict `word` lies."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            kind = {"SUPPORTED": "place.inside", "REFUTED": "place.outside"}.get(word, "place.partly outside")
            return finding(kind, region=self.name)
        above = math.isfinite(self.low) == (word == "SUPPORTED")
        kind = "place.contains" if word == "INCONCLUSIVE" else "place.above" if above else "place.below"
        return finding(kind, line=self.low if math.isfinite(self.low) else self.high)


@dataclass(frozen=True)
class Evidence:
    """The numbers that decide a claim.

    `estimate` is the mean, the paired difference or the slope, and `region` is where the claim says that it lies.
    `about` is the beginning of a sentence, and `seeds` its words on the seeds. `scores` are those of the claim's
    trials, over all seeds.
    """

    claim: Claim
    estimate: Estimate
    region: Region
    about: Finding
    seeds: Finding | str
    scores: Sequence[Scores]

    @property
    def margin(self) -> float:
        """How far the estimate lies inside the claim's region; negative if it lies outside."""
        return min(self.estimate.mean - self.region.low, self.region.high - self.estimate.mean)

    def unseen(self, word: Word) -> str:
        """Returns words on what seeds that were not run might do to the verdict.

        They are empty for values of probes, where no seed fails.
        """
        if isinstance(self.claim, ClaimOfProbe):
            return ""
        if len(self.scores) == 1:
            return unseen_words(self.scores[0], refuted=word == "REFUTED")
        failed, seeds = [len(scores.failed) for scores in self.scores], [scores.n for scores in self.scores]
        most = max(map(most_that_fail, failed, seeds))
        if any(failed):
            return str(finding("unseen.some failed", seeds=sum(seeds), failed=sum(failed), most=most))
        return str(finding("unseen.none failed", seeds=min(seeds), most=most))

    def sentence(self, word: Word, test: Adjusted) -> Finding:
        """Returns the sentence on the estimate, with its interval: `“best” has test score 0.9500 (...)`."""
        draws = self.estimate.draws if self.estimate.draws > 1 else None
        single = any(scores.right for scores in self.scores)
        return finding(
            "claim.decided",
            about=self.about,
            interval=self.estimate.interval(1 - test.level),
            seeds=self.seeds,
            images=draws if single else None,
            draws=None if single else draws,
            folds=finding("part.folds") if self.estimate.overlap else None,
            place=self.region.position(word),
            p=test.p,
        )


NEEDS_SCORES = (AtChance, ProbeBetween, ClaimOfMaps)
"""Claims that cannot be decided with a diverged seed: it counts as chance, which looks like a low value."""


def lacking(claim: Claim, scores: Mapping[str, Scores]) -> Finding | None:
    """Returns the reason why the scores cannot decide a claim; None if they can."""
    probe = isinstance(claim, ClaimOfProbe)
    for name in claim.names:
        trial = scores.get(name)
        if trial is None or not trial.asked:
            return finding("lacking.values", name=name) if probe else _where("lacking.answers", claim, name=name)
        n, diverged = trial.n, len(trial.diverged)
        if not trial.complete and isinstance(claim, KeepsMore):
            return finding("lacking.gains", seeds=trial.asked - n, name=name)
        if not trial.complete:
            return finding(f"lacking.some {'values' if probe else 'answers'}", seeds=n, asked=trial.asked, name=name)
        if n < FEWEST:
            return finding("lacking.seeds", name=name, seeds=finding("part.seeds", **_each(trial)), fewest=FEWEST)
        if diverged == n and isinstance(claim, NoWorse | Equivalent):
            return finding("lacking.any score", seeds=n, name=name)
        if diverged and isinstance(claim, NEEDS_SCORES):
            return finding("lacking.scores", diverged=diverged, seeds=n, name=name)
        if _of_claim(claim, trial).n < FEWEST:
            return finding("lacking.seeds that train", failed=len(trial.failed), seeds=n, name=name, fewest=FEWEST)

    if len(claim.names) == 1:
        return None
    pairs = len(set.intersection(*({*trial.values} for trial in judged(claim, scores).values())))
    if pairs < FEWEST:
        return finding("lacking.pairs", names=claim.names, pairs=pairs, fewest=FEWEST)
    if isinstance(claim, ProbeAsAlike):
        least = max(abs(end) for end in (claim.low, claim.high) if end is not None)
        mean = scores[claim.than].mean or 0.0
        if mean <= least:
            return finding("lacking.likeness", name=claim.than, mean=mean)
    return None


def judged(claim: Claim, scores: Mapping[str, Scores]) -> dict[str, Scores]:
    """Returns, by name, the scores of a claim's trials over the seeds that the claim is about."""
    return {name: _of_claim(claim, scores[name]) for name in claim.names}


def _of_claim(claim: Claim, scores: Scores) -> Scores:
    """Returns the scores of the seeds that a claim is about: of all, or of those that train."""
    return scores.trained if isinstance(claim, ClaimOfSeeds) and claim.of == "seeds that train" else scores


def gather(claim: Claim, scores: Mapping[str, Scores]) -> Evidence:
    """Returns the evidence on a claim for which `lacking` returns None."""
    match claim:
        case AtLeast(value=value):
            return _of_mean(claim, scores, Region(low=value))
        case AtChance(margin=margin):
            chance = scores[claim.who].scale.chance
            name = finding("region.chance", margin=margin, center=chance)
            return _of_mean(claim, scores, Region(chance - margin, chance + margin, name))
        case ProbeBetween(low=low, high=high) | ProbeAlike(low=low, high=high):
            return _of_mean(claim, scores, _between(low, high))
        case ProbeAsAlike(low=low, high=high):
            return _of_gap(claim, scores, _between(low, high))
        case Better(margin=margin) | KeepsMore(margin=margin):
            return _of_gap(claim, scores, Region(low=margin))
        case NoWorse(margin=margin):
            return _of_gap(claim, scores, Region(low=-margin))
        case Equivalent(margin=margin):
            return _of_gap(claim, scores, Region(-margin, margin, finding("region.zero", margin=margin)))
        case Rising() | ProbeRising():
            slope = _tested(contrast([*judged(claim, scores).values()], slope_weights(len(claim.names))))
            about = _where("about.slope", claim, names=claim.listed, slope=slope.mean)
            return _paired(claim, scores, slope, Region(low=claim.margin), about)


def _between(low: float | None, high: float | None) -> Region:
    """Returns the region between two ends; None is an infinite end."""
    ends = (-math.inf if low is None else low, math.inf if high is None else high)
    return Region(*ends, finding("region.ends", low=ends[0], high=ends[1]))


def _of_mean(claim: Claim, scores: Mapping[str, Scores], region: Region) -> Evidence:
    """Returns the evidence on a claim that compares one mean with a region."""
    name = claim.names[0]
    trial = _of_claim(claim, scores[name])
    all_seeds = [scores[name] for name in claim.names]
    return Evidence(claim, _tested(trial.estimate), region, _mean(claim, name, trial), _seeds(trial), all_seeds)


def _of_gap(
    claim: Better | KeepsMore | NoWorse | Equivalent | ProbeAsAlike,
    scores: Mapping[str, Scores],
    region: Region,
) -> Evidence:
    """Returns the evidence on a claim that compares the difference of two trials with a region."""
    trials = judged(claim, scores)
    who, than = trials[claim.who], trials[claim.than]
    alike = isinstance(claim, NoWorse | Equivalent)
    gap = _tested(difference(who, than, least=ALIKE_IMAGES if alike else LEAST_IMAGES))
    if isinstance(claim, ProbeAsAlike):
        measured = [_mean(claim, name, trials[name]) for name in claim.names]
        about = finding("about.likeness", measured=measured, gap=gap.mean)
    else:
        kind = "about.shares" if isinstance(claim, KeepsMore) else "about.difference"
        about = _where(kind, claim, who=claim.who, than=claim.than, gap=gap.mean)
    if who is than:  # such as the best point of a search, where it is the one that was tried first
        about = finding("about.one trial", names=claim.names, difference=about)
    return _paired(claim, scores, gap, region, about)


def _paired(claim: Claim, scores: Mapping[str, Scores], estimate: Estimate, region: Region, about: Finding) -> Evidence:
    """Returns the evidence of an estimate over the seeds that trials share, with words on their groups and failures."""
    trials = judged(claim, scores)
    diverged = len(frozenset().union(*(trial.diverged for trial in trials.values())))
    groups = [
        finding("part.trial", name=name, seeds=groups)
        for name, trial in trials.items()
        if (groups := group_words(trial))
    ]
    seeds = finding("part.pairs", seeds=estimate.n, groups=groups or None, diverged=diverged or None)
    return Evidence(claim, estimate, region, about, seeds, [scores[name] for name in claim.names])


def _tested(estimate: Estimate | None) -> Estimate:
    """Returns the estimate, which is never None after `lacking` has returned None."""
    assert estimate is not None, "`lacking` comes first"
    return estimate


def _mean(claim: Claim, name: str, scores: Scores) -> Finding:
    """Returns a phrase with the mean of a trial, which it names as the claim does."""
    mean = scores.mean or 0.0
    if isinstance(claim, ProbeAsAlike) and name == claim.than:
        return finding("about.maps of seeds", name=name, mean=mean)
    if isinstance(claim, ClaimOfMaps):
        return finding("about.maps", names=claim.names, mean=mean)
    kinds = ((KeepsMore, "about.share"), (ClaimOfProbe, "about.value"))
    kind = next((kind for cls, kind in kinds if isinstance(claim, cls)), "about.score")
    return _where(kind, claim, name=name, mean=mean)


def _where(kind: str, claim: Claim, **values: object) -> Finding:
    """Returns a finding that names the images that a claim is about, if they are not the study's own."""
    return finding(kind, **values, where=getattr(claim, "where", ""))


def claim_score(claim: Claim, name: str, scores: Scores) -> Finding:
    """Returns a phrase with a trial's score and its 95 % interval, if it has one; this interval decides no claim."""
    return finding("claim.score", measured=_mean(claim, name, scores), spread=_spread(scores))


def score_and_spread(scores: Scores) -> Finding:
    """Returns a phrase with the mean over all seeds, its interval, and the two groups of seeds, if there are two."""
    if scores.mean is None:
        return finding("part.unknown")
    return finding("part.score", mean=scores.mean, spread=_spread(scores))


def _spread(scores: Scores) -> Finding | str:
    """Returns a phrase with the interval of the mean and the seeds; with the seeds alone if there is no interval."""
    seeds, interval = _seeds(scores), scores.interval
    trials = scores.best_of if scores.best_of > 1 else None
    return seeds if interval is None else finding("part.spread", trials=trials, interval=interval, seeds=seeds)


def _seeds(scores: Scores) -> Finding | str:
    """Returns a phrase that tells the two groups of seeds, or else their number and, if they are few, all scores."""
    groups = group_words(scores)
    return groups or finding("part.seeds", **_each(scores), diverged=len(scores.diverged) or None)


def _each(scores: Scores) -> dict[str, object]:
    """Returns the number of seeds, and their scores if they are too few for an interval."""
    each = [*scores.values.values()] if 1 < scores.n < FEWEST else None
    return {"seeds": scores.n, "scores": each}
