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
    BetterOverTasks,
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
    Rising,
)
from search_spaces.words import listed, plural, quoted
from service.analysis.format import between, fixed, number, p_text, percent, signed, whole_percent
from service.analysis.scores import ScoresOverTasks, counts, difference_over_tasks, most_unlike, opposing_p, shifts
from service.analysis.statistics import CONFIDENCE, FEWEST, Estimate, Scores, contrast, difference, slope_weights

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
        """Returns the p of the tests that the true mean lies inside: a one-sided t-test at each end, and the larger p.

        Source: Schuirmann 1987 (TOST), where there are two ends.
        """
        return max(self._ps(estimate.p_above(self.low), estimate.p_below(self.high)))

    def p_outside(self, estimate: Estimate) -> float:
        """Returns the p of the tests that the true mean lies outside.

        With two ends this is a union of two tests, so the p is twice the smaller one (Bonferroni).
        """
        return min(1.0, self.ends * min(self._ps(estimate.p_below(self.low), estimate.p_above(self.high))))

    def _ps(self, at_low: float | None, at_high: float | None) -> list[float]:
        """Returns the ps at the ends that there are."""
        known = [(self.low, at_low), (self.high, at_high)]
        ps = [p for end, p in known if math.isfinite(end) and p is not None]
        assert ps, "an estimate that can be tested comes first"
        return ps

    def margin(self, estimate: Estimate) -> float:
        """Returns how far a mean lies inside; negative outside."""
        return min(estimate.mean - self.low, self.high - estimate.mean)

    def distances(self, estimate: Estimate) -> list[float]:
        """Returns how far an interval may reach and still decide: to each end from inside, to one from outside."""
        known = [abs(estimate.mean - end) for end in (self.low, self.high) if math.isfinite(end)]
        return known if self.margin(estimate) > 0 else [min(known)]

    def place(self, word: Word) -> str:
        """Returns where the interval that decided lies."""
        if self.ends == 2:
            where = {"SUPPORTED": "inside", "REFUTED": "outside"}.get(word, "partly outside")
            return f"the interval lies {where} {self.name}"
        above, line = math.isfinite(self.low), self.low if math.isfinite(self.low) else self.high
        sides = ("lies above", "lies below") if above else ("lies below", "lies above")
        where = {"SUPPORTED": sides[0], "REFUTED": sides[1]}.get(word, "contains")
        return f"the interval {where} {number(line)}"


Decided = Literal["SUPPORTED", "REFUTED"]
Part = tuple[str, Scores, float]
"""A trial's name, its scores, and what they count."""


@dataclass(frozen=True)
class Evidence:
    """The numbers about a claim.

    `estimate`: the mean, the paired difference, or the slope; `region`: what the claim says of it; `about`, `seeds`:
    how a sentence begins, and the seeds. `parts`: the trials, each with what its score counts in `estimate`.
    """

    claim: Claim
    estimate: Estimate
    region: Region
    p_supports: float
    p_refutes: float
    about: str
    seeds: str
    parts: tuple[Part, ...]

    @property
    def scope(self) -> str:
        """What a verdict is about where seeds that were not seen could change it."""
        some = any(counts(scores)[0] for _, scores, _ in self.parts)
        return "of seeds that learn" if some else "of seeds that do not learn"

    @property
    def learners(self) -> bool:
        """Whether the numbers are those of seeds that learn, so that nothing is known yet of the others."""
        return not isinstance(self.claim, ClaimOfProbe)

    def holds_for_all(self, word: Decided, level: float) -> bool:
        """Returns whether the finding holds for all seeds, however many of them may fail to learn.

        `level`: of the finding. One half of it is spent on the interval of the seeds that learn, and one on the shares
        of seeds that may fail: of each trial as many as its seeds allow, with the worst effect. A seed that fails is at
        chance; of a trial whose seeds do not learn, one that does may have any score.
        """
        if not self.learners:
            return True
        if isinstance(self.claim, KeepsMore):  # a share of what was learnt
            return False
        interval = self.estimate.interval(1 - level)
        assert interval is not None, "an estimate that can be tested comes first"
        moves = [
            weight * move for _, scores, weight in self.parts for move in shifts(scores, level / 2 / len(self.parts))
        ]
        low = interval[0] + sum(min(0.0, move) for move in moves)
        high = interval[1] + sum(max(0.0, move) for move in moves)
        if word == "SUPPORTED":
            return low > self.region.low and high < self.region.high
        return high < self.region.low or low > self.region.high

    def opposed(self, word: Decided, level: float) -> str:
        """Returns how the numbers of seeds that learn say the opposite of the scores, in words; empty if they do not.

        `level`: of the test of the numbers.
        """
        if isinstance(self.claim, AtChance) and word == "SUPPORTED" and self.parts[0][1].learnt:
            return "but some of its seeds learn"
        if not isinstance(self.claim, Better | BetterOverTasks | NoWorse | Equivalent | Rising):
            return ""
        who, than = (end(self.parts, key=lambda part: part[2])[1] for end in (max, min))
        sides = [(who, than)] if word == "SUPPORTED" else [(than, who)]
        if isinstance(self.claim, Equivalent):  # it says nothing of which one is better
            above = [(who, than)] if self.estimate.mean > 0 else [(than, who)]
            sides = [(who, than), (than, who)] if word == "SUPPORTED" else above
        ps = [p for side in sides if (p := opposing_p(*side, level)) is not None]
        return f"but they do not learn equally often (Fisher's test p {p_text(min(ps))})" if ps else ""

    @property
    def ceiling(self) -> str:
        """Says that a pair has the highest score there is, to an image: there, any two that learn are alike."""
        scales = [(scores.sound.mean, scores.scale) for _, scores, _ in self.parts]
        highest = all(scale.logits and mean is not None and mean >= scale.high - scale.step for mean, scale in scales)
        return CEILING if isinstance(self.claim, NoWorse | Equivalent) and highest else ""

    @property
    def margin(self) -> float:
        """How far the number lies inside the claim; negative outside."""
        return self.region.margin(self.estimate)

    def words(self, word: Word, confidence: float) -> str:
        """Returns the measured number with its interval: `“best” has test score 0.9500 (90 % interval ..., 3 seeds).

        ...`.
        """
        about, interval = f"{self.about[:1].upper()}{self.about[1:]}", self.estimate.interval(confidence)
        assert interval is not None, "an estimate that can be tested comes first"
        images = f", {self.estimate.draws} draws of images" if self.estimate.draws > 1 else ""
        images += ", folds of the same images" if self.estimate.overlap else ""
        at = f"{percent(confidence)} interval {between(interval)}"
        return f"{about} ({at}, {self.seeds}{images}); {self.region.place(word)}"


CEILING = " Both have the highest score there is: a harder task may tell them apart."
NEEDS_SCORES = (AtChance, ProbeBetween, ClaimOfMaps)
"""Claims on which a diverged seed decides nothing: at chance it looks like a low value."""


def lacking(claim: Claim, scores: Mapping[str, Scores]) -> str | None:
    """Returns why the scores cannot decide a claim, in a sentence; None if they can."""
    reasons = (_lacking(name, scores.get(name), claim) for name in claim.names)
    reason = next((reason for reason in reasons if reason), None)
    if reason or len(claim.names) == 1:
        return reason
    pairs = len(set.intersection(*({*scores[name].sound.values} for name in claim.names)))
    if pairs < FEWEST:
        learn = " that learn in each" if any(scores[name].sound is not scores[name] for name in claim.names) else ""
        return f"{_listed(claim.names)} share {plural(pairs, 'seed')}{learn}; a claim needs {FEWEST}."
    return _unlike_itself(claim, scores[claim.than]) if isinstance(claim, ProbeAsAlike) else None


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
        low = "a score at chance or in the lower of two groups"
        return f"{none} of {who} had nothing to keep: no answer yet, or {low} at the training's own side."
    if not scores.complete:
        answer = "a value of the probe" if isinstance(claim, ClaimOfProbe) else "an answer"
        return f"Only {scores.n} of {plural(scores.asked, 'seed')} of {who} have {answer}."
    if scores.n < FEWEST:
        return f"{who} has {_values(scores)}; a claim needs {FEWEST} seeds or more."
    if not isinstance(claim, AtChance) and scores.sound.n < FEWEST:
        return f"Only {len(scores.learnt)} of {scores.n} seeds of {who} learn; a claim needs {FEWEST} that do."
    if isinstance(scores, ScoresOverTasks) and scores.fewest[0] < FEWEST:
        few, task = scores.fewest
        return f"Only {few} of {scores.n} seeds of {who} learn on {quoted(task)}; a claim needs {FEWEST} that do."
    if len(scores.diverged) == scores.n and isinstance(claim, NoWorse | Equivalent):
        return f"All {scores.n} seeds of {who} diverged, which shows no score at all."
    if scores.diverged and isinstance(claim, NEEDS_SCORES):
        return f"{len(scores.diverged)} of {scores.n} seeds of {who} diverged, which shows no score at all."
    return None


def gather(claim: Claim, scores: Mapping[str, Scores]) -> Evidence:
    """Returns the evidence on a claim whose scores lack nothing."""
    trials = [scores[name] for name in claim.names]
    match claim:
        case AtLeast(value=value):
            return _of_mean(claim, trials[0], Region(low=value))
        case AtChance(margin=margin):
            chance = trials[0].scale.chance
            return _of_mean(claim, trials[0], _around(chance, margin, f"chance, {number(chance)}"), all_seeds=True)
        case ProbeBetween(low=low, high=high) | ProbeAlike(low=low, high=high):
            return _of_mean(claim, trials[0], _between(low, high))
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


def _of_mean(claim: Claim, who: Scores, region: Region, *, all_seeds: bool = False) -> Evidence:
    estimate = _known(who.whole if all_seeds else who.estimate)
    about = _mean_words(claim, claim.names[0], estimate.mean)
    return _tested(claim, estimate, region, about, seeds_words(who), ((claim.names[0], who, 1.0),))


def _of_gap(
    claim: Better | BetterOverTasks | KeepsMore | NoWorse | Equivalent | ProbeAsAlike,
    pair: list[Scores],
    region: Region,
) -> Evidence:
    who, than = pair
    if isinstance(who, ScoresOverTasks) and isinstance(than, ScoresOverTasks):
        gap = _known(difference_over_tasks(who, than))
    else:
        gap = _known(difference(who, than))
    words = _gap_words(claim.who, claim.than, gap)
    if isinstance(claim, ProbeAsAlike):
        words = (
            f"{'; '.join(_mean_words(claim, name, side.mean) for name, side in zip(claim.names, pair, strict=True))}: "
            f"{signed(gap.mean)}"
        )
    if isinstance(claim, KeepsMore):
        words = f"the share kept by {words.replace(' minus ', ' minus that of ')}"
    words += _where(claim)
    if who is than:  # such as the best point of a search, where it is the one that was tried first
        words = f"{_listed(claim.names)} are the same trial; {words}"
    parts = tuple(zip(claim.names, pair, (1.0, -1.0), strict=True))
    return _tested(claim, gap, region, words, _seeds(gap, pair, "pair of seeds"), parts)


def _of_slope(claim: Rising | ProbeRising, trials: list[Scores]) -> Evidence:
    weights = slope_weights(len(trials))
    slope = _known(contrast(trials, weights))
    about = f"the slope along {claim.listed} is {signed(slope.mean)} a step{_where(claim)}"
    parts = tuple(zip(claim.names, trials, weights, strict=True))
    return _tested(claim, slope, Region(low=claim.margin), about, _seeds(slope, trials, "seed"), parts)


def _tested(
    claim: Claim, estimate: Estimate, region: Region, about: str, seeds: str, parts: tuple[Part, ...]
) -> Evidence:
    ps = region.p_inside(estimate), region.p_outside(estimate)
    return Evidence(claim, estimate, region, *ps, about, seeds, parts)


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


def _gap_words(who: str, than: str, gap: Estimate) -> str:
    return f"{quoted(who)} minus {quoted(than)} is {signed(gap.mean)}"


def _seeds(estimate: Estimate, trials: list[Scores], noun: str) -> str:
    """Returns how many seeds decided, and how many of the trials' seeds diverged."""
    fallen = len(frozenset().union(*(trial.diverged for trial in trials)))
    return f"{plural(estimate.n, noun)}{f', {fallen} diverged' if fallen else ''}"


def learn_words(parts: Sequence[Part]) -> str:
    """Returns how many seeds of each trial learn, and the largest share of all seeds that may be unlike these."""
    groups: dict[tuple[int, int, str], list[str]] = {}
    for name, scores, _ in parts:
        group = *counts(scores), "run" if isinstance(scores, ScoresOverTasks) else "seed"
        groups.setdefault(group, []).append(name)
    clauses = []
    for (learnt, n, noun), names in groups.items():
        each = " each" if len({*names}) > 1 else ""
        who = _listed(tuple(dict.fromkeys(names)))
        may = f"so up to {whole_percent(most_unlike(learnt, n))} of all {noun}s may{' not' if learnt else ''}"
        clauses.append(f"{learnt} of {plural(n, noun)} of {who} learn{each}, {may}")
    return f"{'; '.join(clauses)}."


def score_words(claim: Claim, name: str, scores: Scores) -> str:
    """Returns a trial's score in a sentence, with its 95 % interval where it has one: nothing is decided by it."""
    mean = scores.mean if isinstance(claim, AtChance) else scores.sound.mean
    return f"{_mean_words(claim, name, mean)} ({spread_words(scores)})"


def spread_words(scores: Scores, of: int = 1) -> str:
    """Returns the 95 % interval of the seeds that learn, and the seeds; these alone if too few learn for an interval.

    `of`: among how many trials this one was chosen by the same runs: its interval is one of so many that hold together.
    """
    interval = scores.estimate.interval(1 - (1 - CONFIDENCE) / of) if scores.estimate else None
    best = f" for the best of {of}:" if of > 1 else ""
    return f"{f'95 % interval{best} {between(interval)}, ' if interval else ''}{seeds_words(scores)}"


def seeds_words(scores: Scores) -> str:
    """Returns how many seeds learn, with scores if some do not: `1 of 3 seeds learns: 0.5000, 0.5000, 0.9800`."""
    fallen = f", {len(scores.diverged)} diverged" if scores.diverged else ""
    learnt = len(scores.learnt)
    if 0 < learnt < scores.n:
        return f"{learnt} of {scores.n} seeds learn{'s' if learnt == 1 else ''}: {_list(scores)}{fallen}"
    return f"{_values(scores) if scores.n < FEWEST else plural(scores.n, 'seed')}{fallen}"


def _values(scores: Scores) -> str:
    """Returns the seeds themselves, where they are too few for an interval: `2 seeds: 0.9700, 0.9800`."""
    return f"{plural(scores.n, 'seed')}: {_list(scores)}" if scores.n > 1 else plural(scores.n, "seed")


def _list(scores: Scores) -> str:
    return ", ".join(fixed(value) for value in sorted(scores.values.values()))
