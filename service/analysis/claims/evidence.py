"""What the scores show about one claim: an estimate, and the p-values of its two tests. `verdicts` decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from search_spaces.claim import AtChance, AtLeast, Better, Claim, Equivalent
from search_spaces.words import plural, quoted
from service.analysis.format import between, number, signed
from service.analysis.statistics import FEWEST, Estimate, Scores, difference


@dataclass(frozen=True)
class Evidence:
    """The numbers about a claim.

    `found`: the mean, or the paired difference; `margin`: how far it lies inside the claim; `refuting_tests`: 2 where
    the claim has two sides on which it can fail; `about`, `seeds`: how a sentence begins and what it adds on seeds.
    """

    claim: Claim
    found: Estimate
    p_supports: float
    p_refutes: float
    margin: float
    about: str
    seeds: str
    refuting_tests: int = 1
    chance: float = 0.0

    def words(self, interval: str) -> str:
        """The measured number with its interval: `“best” scores 0.95 (90 % interval 0.93 to 0.97, 3 seeds)`."""
        return f"{self.about} ({interval}, {self.seeds})"


def names_of(claim: Claim) -> list[str]:
    """The trials that a claim speaks of."""
    return [claim.who, claim.than] if isinstance(claim, Better | Equivalent) else [claim.who]


def lacking(claim: Claim, scores: Mapping[str, Scores]) -> str | None:
    """Why the scores cannot decide a claim, in a sentence; None where they can."""
    names = names_of(claim)
    reasons = (_lacking(name, scores.get(name), claim) for name in names)
    reason = next((reason for reason in reasons if reason), None)
    if reason or len(names) == 1:
        return reason
    pairs = len(scores[names[0]].values.keys() & scores[names[1]].values.keys())
    if pairs < FEWEST:
        return f"{quoted(names[0])} and {quoted(names[1])} share {plural(pairs, 'seed')}; a claim needs {FEWEST}."
    return None


def _lacking(name: str, scores: Scores | None, claim: Claim) -> str | None:
    who = quoted(name)
    if scores is None or not scores.asked:
        return f"{who} has no test score{claim.where} yet."
    if not scores.complete:
        return f"Only {scores.n} of {plural(scores.asked, 'seed')} of {who} have an answer."
    if scores.n < FEWEST:
        return f"{who} has {_values(scores)}; a claim needs {FEWEST} seeds or more."
    if scores.diverged and isinstance(claim, AtChance | Equivalent):
        return f"{len(scores.diverged)} of {scores.n} seeds of {who} diverged, which shows no score at all."
    return None


def gather(claim: Claim, scores: Mapping[str, Scores]) -> Evidence:
    """The evidence on a claim whose scores lack nothing."""
    who = scores[claim.who]
    match claim:
        case AtLeast(value=value):
            return _one_sided(claim, _estimate(who), value, _mean_words(claim.who, who), seeds_words(who))
        case Better(than=than, margin=margin):
            gap = _gap(who, scores[than])
            return _one_sided(claim, gap, margin, *_gap_words(claim, gap, who, scores[than]))
        case Equivalent(than=than):
            gap = _gap(who, scores[than])
            return _two_sided(claim, gap, 0.0, *_gap_words(claim, gap, who, scores[than]))
        case AtChance():
            mean = _mean_words(claim.who, who)
            return _two_sided(claim, _estimate(who), who.scale.chance, mean, seeds_words(who))


def _one_sided(claim: AtLeast | Better, found: Estimate, line: float, about: str, seeds: str) -> Evidence:
    """A one-sided t-test on each side of a line."""
    return Evidence(claim, found, _p(found.p_above(line)), _p(found.p_below(line)), found.mean - line, about, seeds)


def _two_sided(claim: AtChance | Equivalent, found: Estimate, center: float, about: str, seeds: str) -> Evidence:
    """Two one-sided tests around a center support the claim; two more, of which one must reject, refute it.

    Source: Schuirmann 1987 (TOST). Differs: refuting is a union of two tests, so its p is twice the smaller one
    (Bonferroni).
    """
    low, high = center - claim.margin, center + claim.margin
    inside = max(_p(found.p_above(low)), _p(found.p_below(high)))
    outside = min(_p(found.p_above(high)), _p(found.p_below(low)))
    margin = claim.margin - abs(found.mean - center)
    refutes = min(1.0, 2 * outside)
    return Evidence(claim, found, inside, refutes, margin, about, seeds, refuting_tests=2, chance=center)


def _estimate(scores: Scores) -> Estimate:
    assert scores.estimate is not None
    return scores.estimate


def _gap(who: Scores, than: Scores) -> Estimate:
    gap = difference(who, than)
    assert gap is not None
    return gap


def _p(p: float | None) -> float:
    assert p is not None, "`lacking` comes first"
    return p


def _mean_words(name: str, scores: Scores) -> str:
    return f"{quoted(name)} scores {number(scores.mean or 0.0)}"


def _gap_words(claim: Better | Equivalent, gap: Estimate, who: Scores, than: Scores) -> tuple[str, str]:
    fallen = len(who.diverged | than.diverged)
    lost = f", {fallen} diverged and counted at chance" if fallen else ""
    about = f"{quoted(claim.who)} minus {quoted(claim.than)} is {signed(gap.mean)}"
    return about, f"{plural(gap.n, 'pair')} of seeds{lost}"


def score_words(name: str, scores: Scores) -> str:
    """A trial's score in a sentence, with its 95 % interval where it has one: nothing is decided by it."""
    return f"{_mean_words(name, scores)} ({spread_words(scores)})"


def spread_words(scores: Scores) -> str:
    """The 95 % interval and the seeds; the seeds alone where they are too few for an interval, or split in two."""
    interval = f"95 % interval {between(scores.interval)}, " if scores.interval and not scores.split else ""
    return f"{interval}{seeds_words(scores)}"


def seeds_words(scores: Scores) -> str:
    """How many seeds, and what is odd about them: `3 seeds split in two: 0.50, 0.50, 0.98`."""
    if scores.n < FEWEST:
        return _values(scores)
    split = f" split in two: {_list(scores)}" if scores.split else ""
    fallen = f", {len(scores.diverged)} diverged and counted at chance" if scores.diverged else ""
    return f"{plural(scores.n, 'seed')}{split}{fallen}"


def _values(scores: Scores) -> str:
    """The seeds themselves, where they are too few for an interval: `2 seeds: 0.97, 0.98`."""
    return f"{plural(scores.n, 'seed')}: {_list(scores)}" if scores.n > 1 else plural(scores.n, "seed")


def _list(scores: Scores) -> str:
    return ", ".join(number(value) for value in sorted(scores.values.values()))
