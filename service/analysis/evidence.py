"""What the scores show about one claim: an estimate, and the p-values of its two tests. `verdicts` decides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from search_spaces.claim import (
    AtChance,
    AtLeast,
    Better,
    BetterOverTasks,
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
from search_spaces.words import listed, plural, quoted
from service.analysis.format import between, fixed, number, signed, whole_percent
from service.analysis.scores import ScoresOverTasks, failures, group_words, most_that_fail, unseen_words
from service.analysis.statistics import (
    ALIKE_IMAGES,
    FEWEST,
    LEAST_IMAGES,
    Estimate,
    Scores,
    contrast,
    difference,
    slope_weights,
)

Word = Literal["SUPPORTED", "REFUTED", "INCONCLUSIVE", "NOT JUDGED"]


@dataclass(frozen=True)
class Region:
    """The numbers from `low` to `high`, either of which may be infinite. `name`: in words, where it has two ends."""

    low: float = -math.inf
    high: float = math.inf
    name: str = ""

    @property
    def ends(self) -> int:
        """How many ends it has: on so many sides a claim can fail."""
        return math.isfinite(self.low) + math.isfinite(self.high)

    def p_inside(self, estimate: Estimate) -> float:
        """Returns the p of the test that the true mean lies inside: below it, an interval of that level lies inside.

        Source: Schuirmann 1987 (TOST), where there are two ends. Differs: it is doubled, as every p is two-sided.
        """
        return min(1.0, 2 * max(self._ps(estimate.p_above(self.low), estimate.p_below(self.high))))

    def p_outside(self, estimate: Estimate) -> float:
        """Returns the p of the test that the true mean lies outside: as an interval of that level then does."""
        return min(1.0, 2 * min(self._ps(estimate.p_below(self.low), estimate.p_above(self.high))))

    def _ps(self, at_low: float | None, at_high: float | None) -> list[float]:
        """Returns the ps at the ends that there are."""
        sides = [(self.low, at_low), (self.high, at_high)]
        ps = [p for end, p in sides if math.isfinite(end) and p is not None]
        assert ps, "an estimate that can be tested comes first"
        return ps

    def margin(self, estimate: Estimate) -> float:
        """Returns how far a mean lies inside; negative outside."""
        return min(estimate.mean - self.low, self.high - estimate.mean)

    def place(self, word: Word) -> str:
        """Returns where the interval that decided lies."""
        if self.ends == 2:
            where = {"SUPPORTED": "inside", "REFUTED": "outside"}.get(word, "partly outside")
            return f"the interval lies {where} {self.name}"
        above, line = math.isfinite(self.low), self.low if math.isfinite(self.low) else self.high
        sides = ("lies above", "lies below") if above else ("lies below", "lies above")
        where = {"SUPPORTED": sides[0], "REFUTED": sides[1]}.get(word, "contains")
        return f"the interval {where} {number(line)}"


@dataclass(frozen=True)
class Evidence:
    """The numbers about a claim.

    `estimate`: the mean, the paired difference, or the slope; `region`: what the claim says of it; `about`, `seeds`:
    how a sentence begins, and the seeds. `trials`: the scores of the claim's trials over the seeds that it is about, by
    name; `seen`: those of all seeds.
    """

    claim: Claim
    estimate: Estimate
    region: Region
    about: str
    seeds: str
    trials: Mapping[str, Scores]
    seen: Mapping[str, Scores] = field(default_factory=dict)

    @property
    def ps(self) -> tuple[float, float]:
        """The p of the tests that the number lies inside the claim, and outside."""
        return self.region.p_inside(self.estimate), self.region.p_outside(self.estimate)

    @property
    def margin(self) -> float:
        """How far the number lies inside the claim; negative outside."""
        return self.region.margin(self.estimate)

    def unseen(self, word: Word) -> str:
        """Returns what seeds that were not seen might do to the verdict.

        Empty for values of probes, where nothing fails.
        """
        if isinstance(self.claim, ClaimOfProbe):
            return ""
        trials = [*self.seen.values()]
        if len(trials) == 1:
            return unseen_words(trials[0], refuted=word == "REFUTED")
        failed, runs = zip(*map(failures, trials), strict=True)
        most = whole_percent(max(map(most_that_fail, failed, runs)))
        noun = "runs" if isinstance(trials[0], ScoresOverTasks) else "seeds"
        count = f"of {sum(runs)} {noun} {sum(failed)}" if any(failed) else f"of {min(runs)} {noun} each none"
        return f"{count} failed; up to {most} of a trial's {noun} may score otherwise"

    def words(self, word: Word, level: float) -> str:
        """Returns the measured number with its interval: `“best” has test score 0.9500 (interval ..., 3 seeds).

        ...`.
        """
        about, interval = f"{self.about[:1].upper()}{self.about[1:]}", self.estimate.interval(1 - level)
        single = any(scores.right for scores in self.trials.values())
        noun = "test images" if single else "draws of images"
        images = f", {self.estimate.draws} {noun}" if self.estimate.draws > 1 else ""
        images += ", folds of the same images" if self.estimate.overlap else ""
        return f"{about} (95 % interval {between(interval)}, {self.seeds}{images}); {self.region.place(word)}"


NEEDS_SCORES = (AtChance, ProbeBetween, ClaimOfMaps)
"""Claims on which a diverged seed decides nothing: at chance it looks like a low value."""


def lacking(claim: Claim, scores: Mapping[str, Scores]) -> str | None:
    """Returns why the scores cannot decide a claim, in a sentence; None if they can."""
    reasons = (_lacking(name, scores.get(name), claim) for name in claim.names)
    reason = next((reason for reason in reasons if reason), None)
    if reason or len(claim.names) == 1:
        return reason
    pairs = len(set.intersection(*({*trial.values} for trial in judged(claim, scores).values())))
    if pairs < FEWEST:
        return f"{_listed(claim.names)} share {plural(pairs, 'seed')}; a claim needs {FEWEST}."
    return _unlike_itself(claim, scores[claim.than]) if isinstance(claim, ProbeAsAlike) else None


def judged(claim: Claim, scores: Mapping[str, Scores]) -> dict[str, Scores]:
    """Returns the scores of a claim's trials over the seeds that it is about, by name."""
    train = isinstance(claim, ClaimOfSeeds) and claim.of == "seeds that train"
    return {name: scores[name].trained if train else scores[name] for name in claim.names}


def _unlike_itself(claim: ProbeAsAlike, seeds: Scores) -> str | None:
    """Returns why maps cannot be compared: those of two seeds have too little in common; None if they can."""
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
        answer = "value of the probe" if isinstance(claim, ClaimOfProbe) else f"test score{claim.where}"
        return f"{who} has no {answer} yet."
    if not scores.complete and isinstance(claim, KeepsMore):
        none = plural(scores.asked - scores.n, "seed")
        return f"{none} of {who} had nothing to keep: no answer yet, or a score at chance at the training's own side."
    if not scores.complete:
        answer = "a value of the probe" if isinstance(claim, ClaimOfProbe) else "an answer"
        return f"Only {scores.n} of {plural(scores.asked, 'seed')} of {who} have {answer}."
    if scores.n < FEWEST:
        return f"{who} has {_values(scores)}; a claim needs {FEWEST} seeds or more."
    if len(scores.diverged) == scores.n and isinstance(claim, NoWorse | Equivalent):
        return f"All {scores.n} seeds of {who} diverged, which shows no score at all."
    if scores.diverged and isinstance(claim, NEEDS_SCORES):
        return f"{len(scores.diverged)} of {scores.n} seeds of {who} diverged, which shows no score at all."
    if judged(claim, {**dict.fromkeys(claim.names, scores)})[name].n < FEWEST:
        return f"{len(scores.failed)} of {scores.n} seeds of {who} failed; the claim needs {FEWEST} seeds that train."
    return None


def gather(claim: Claim, scores: Mapping[str, Scores]) -> Evidence:
    """Returns the evidence on a claim whose scores lack nothing."""
    found = _gathered(claim, judged(claim, scores))
    return replace(found, seen={name: scores[name] for name in claim.names})


def _gathered(claim: Claim, trials: Mapping[str, Scores]) -> Evidence:
    match claim:
        case AtLeast(value=value):
            return _of_mean(claim, trials, Region(low=value))
        case AtChance(margin=margin):
            chance = trials[claim.who].scale.chance
            return _of_mean(claim, trials, _around(chance, margin, f"chance, {number(chance)}"))
        case ProbeBetween(low=low, high=high) | ProbeAlike(low=low, high=high):
            return _of_mean(claim, trials, _between(low, high))
        case ProbeAsAlike(low=low, high=high):
            return _of_gap(claim, trials, _between(low, high))
        case Better(margin=margin) | BetterOverTasks(margin=margin) | KeepsMore(margin=margin):
            return _of_gap(claim, trials, Region(low=margin))
        case NoWorse(margin=margin):
            return _of_gap(claim, trials, Region(low=-margin))
        case Equivalent(margin=margin):
            return _of_gap(claim, trials, _around(0.0, margin, "0"))
        case Rising() | ProbeRising():
            return _of_slope(claim, trials)


def _around(center: float, margin: float, name: str) -> Region:
    return Region(center - margin, center + margin, f"the margin of {margin:g} around {name}")


def _between(low: float | None, high: float | None) -> Region:
    ends = (-math.inf if low is None else low, math.inf if high is None else high)
    return Region(*ends, name=f"{number(ends[0])} to {number(ends[1])}")


def _of_mean(claim: Claim, trials: Mapping[str, Scores], region: Region) -> Evidence:
    who = trials[claim.names[0]]
    estimate = _known(who.estimate)
    return Evidence(claim, estimate, region, _mean_words(claim, claim.names[0], who.mean), seeds_words(who), trials)


def _of_gap(
    claim: Better | BetterOverTasks | KeepsMore | NoWorse | Equivalent | ProbeAsAlike,
    trials: Mapping[str, Scores],
    region: Region,
) -> Evidence:
    who, than = trials[claim.who], trials[claim.than]
    alike = isinstance(claim, NoWorse | Equivalent)
    gap = _known(difference(who, than, least=ALIKE_IMAGES if alike else LEAST_IMAGES))
    words = f"{quoted(claim.who)} minus {quoted(claim.than)} is {signed(gap.mean)}"
    if isinstance(claim, ProbeAsAlike):
        sides = [_mean_words(claim, name, trials[name].mean) for name in claim.names]
        words = f"{'; '.join(sides)}: {signed(gap.mean)}"
    if isinstance(claim, KeepsMore):
        words = f"the share kept by {words.replace(' minus ', ' minus that of ')}"
    words += _where(claim)
    if who is than:  # such as the best point of a search, where it is the one that was tried first
        words = f"{_listed(claim.names)} are the same trial; {words}"
    return Evidence(claim, gap, region, words, _pairs(gap, trials), trials)


def _of_slope(claim: Rising | ProbeRising, trials: Mapping[str, Scores]) -> Evidence:
    slope = _known(contrast([*trials.values()], slope_weights(len(trials))))
    about = f"the slope along {claim.listed} is {signed(slope.mean)} a step{_where(claim)}"
    return Evidence(claim, slope, Region(low=claim.margin), about, _pairs(slope, trials), trials)


def _known(estimate: Estimate | None) -> Estimate:
    assert estimate is not None, "`lacking` comes first"
    return estimate


def _listed(names: tuple[str, ...]) -> str:
    return listed([quoted(name) for name in names])


def _mean_words(claim: Claim, name: str, value: float | None) -> str:
    mean = fixed(value or 0.0)
    if isinstance(claim, ProbeAsAlike) and name == claim.than:
        return f"those of two seeds of {quoted(name)} by {mean}"
    if isinstance(claim, ClaimOfMaps):
        return f"the maps of {_listed(claim.names)} correlate by {mean}"
    if isinstance(claim, KeepsMore):
        return f"{quoted(name)} keeps {mean} of what it scores above chance{claim.where}"
    what = "" if isinstance(claim, ClaimOfProbe) else "test score "
    return f"{quoted(name)} has {what}{mean}{_where(claim)}"


def _where(claim: Claim) -> str:
    """Returns on which images or tasks a claim is, with a blank before it; empty if on the study's own."""
    return str(getattr(claim, "where", ""))


def _pairs(estimate: Estimate, trials: Mapping[str, Scores]) -> str:
    """Returns how many seeds decided, the groups in which they lie, and how many of the trials' seeds diverged."""
    diverged = len(frozenset().union(*(trial.diverged for trial in trials.values())))
    groups = [f"{quoted(name)} {words}" for name, trial in trials.items() if (words := group_words(trial))]
    lost = [f"{diverged} diverged"] if diverged else []
    return ", ".join([plural(estimate.n, "seed"), *groups, *lost])


def score_words(claim: Claim, name: str, scores: Scores) -> str:
    """Returns a trial's score in a sentence, with its 95 % interval where it has one: nothing is decided by it."""
    return f"{_mean_words(claim, name, scores.mean)} ({spread_words(scores)})"


def spread_words(scores: Scores) -> str:
    """Returns the 95 % interval of the mean, and the seeds."""
    best = f" for the best of {scores.best_of}:" if scores.best_of > 1 else ""
    return f"{f'95 % interval{best} {between(scores.interval)}, ' if scores.interval else ''}{seeds_words(scores)}"


def seeds_words(scores: Scores) -> str:
    """Returns how many seeds there are; if they lie in two groups, these; if they are too few for an interval, all."""
    if groups := group_words(scores):
        return groups
    diverged = f", {len(scores.diverged)} diverged" if scores.diverged else ""
    return f"{_values(scores) if scores.n < FEWEST else plural(scores.n, 'seed')}{diverged}"


def _values(scores: Scores) -> str:
    """Returns the seeds themselves, where they are too few for an interval: `2 seeds: 0.9700, 0.9800`."""
    values = ", ".join(fixed(value) for value in sorted(scores.values.values()))
    return f"{plural(scores.n, 'seed')}: {values}" if scores.n > 1 else plural(scores.n, "seed")
