"""Claims judged: SUPPORTED, REFUTED or INCONCLUSIVE, with the numbers behind and one line in plain words.

A claim is judged on the test scores of all seeds that were asked for. A missing seed or a single one decides nothing;
a diverged seed counts at chance, and cannot show that two things are alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from search_spaces.claim import AtChance, AtLeast, Better, Claim, Equivalent
from service.analysis.format import between, number, p_text, plural, signed
from service.analysis.statistics import ALPHA, Estimate, Interval, Scores, difference

Word = Literal["SUPPORTED", "REFUTED", "INCONCLUSIVE"]


@dataclass(frozen=True)
class Verdict:
    """A claim's answer.

    `measured`: the mean, or the paired difference, over `n` seeds; `interval`: its 95 % interval; `margin`: how far
    `measured` lies inside the claim (negative: outside); `p`: of the test that decided, None where an interval did.
    """

    claim: Claim
    word: Word
    why: str
    n: int = 0
    measured: float | None = None
    interval: Interval | None = None
    margin: float | None = None
    p: float | None = None

    def __str__(self) -> str:
        return f"{self.word}: {self.claim}. {self.why}"


def judge(claim: Claim, scores: Mapping[str, Scores]) -> Verdict:
    """The verdict on a claim, given the test scores of the trials by the names that claims use."""
    names = [claim.who, claim.than] if isinstance(claim, Better | Equivalent) else [claim.who]
    lacking = [reason for name in names if (reason := _lacking(name, scores.get(name), claim))]
    if lacking:
        return Verdict(
            claim, "INCONCLUSIVE", lacking[0], min(scores[name].n if name in scores else 0 for name in names)
        )
    match claim:
        case AtLeast():
            return _at_least(claim, scores[claim.who])
        case AtChance():
            return _at_chance(claim, scores[claim.who])
        case _:
            return _paired(claim, scores[claim.who], scores[claim.than])


def _lacking(name: str, scores: Scores | None, claim: Claim) -> str | None:
    """Why a trial's scores cannot decide, or None."""
    if scores is None:
        return f"{name} has no test score{claim.where} yet."
    if not scores.complete:
        return f"only {scores.n} of {plural(scores.asked, 'seed')} of {name} have an answer."
    if scores.n < 2:
        return f"one seed of {name} shows no spread; ask for two or more."
    if scores.diverged and isinstance(claim, AtChance | Equivalent):
        return f"{len(scores.diverged)} of {scores.n} seeds of {name} diverged, which shows no score at all."
    return None


def _at_least(claim: AtLeast, scores: Scores) -> Verdict:
    """The whole 95 % interval must lie on one side."""
    mean, interval = scores.estimate, scores.interval
    assert mean is not None
    assert interval is not None
    low, high = interval
    word: Word = "SUPPORTED" if low >= claim.value else "REFUTED" if high < claim.value else "INCONCLUSIVE"
    where = {"SUPPORTED": "lies at or above", "REFUTED": "lies below", "INCONCLUSIVE": "holds"}[word]
    why = f"{_score(claim.who, scores, mean)}; the interval {where} {number(claim.value)}."
    return Verdict(claim, word, why, scores.n, mean.mean, interval, mean.mean - claim.value)


def _at_chance(claim: AtChance, scores: Scores) -> Verdict:
    """Two one-sided tests around chance. Source: Schuirmann 1987 (TOST). Differs: nothing."""
    chance, mean = scores.scale.chance, scores.estimate
    assert mean is not None
    word, p = _within(mean, chance, claim.margin)
    why = f"{_score(claim.who, scores, mean)}; {_around(word, p, claim.margin, f'chance, {number(chance)}')}."
    return Verdict(claim, word, why, scores.n, mean.mean, scores.interval, claim.margin - abs(mean.mean - chance), p)


def _paired(claim: Better | Equivalent, who: Scores, than: Scores) -> Verdict:
    gap = difference(who, than)
    if gap is None or gap.error is None:
        few = f"{claim.who} and {claim.than} share {plural(gap.n if gap else 0, 'seed')}; two are needed."
        return Verdict(claim, "INCONCLUSIVE", few, gap.n if gap else 0)
    said = _gap(claim, gap, len(who.diverged | than.diverged))
    return _better(claim, gap, said) if isinstance(claim, Better) else _equivalent(claim, gap, said)


def _better(claim: Better, gap: Estimate, said: str) -> Verdict:
    """A one-sided paired t-test on each side of the margin."""
    above, below = gap.p_above(claim.margin) or 0.0, gap.p_below(claim.margin) or 0.0
    word: Word = "SUPPORTED" if above < ALPHA else "REFUTED" if below < ALPHA else "INCONCLUSIVE"
    p = below if word == "REFUTED" else above
    line = number(claim.margin) if claim.margin else "0"
    where = {"SUPPORTED": "above", "REFUTED": "below", "INCONCLUSIVE": "not told from"}[word]
    why = f"{said}; {where} {line} (one-sided p {p_text(p)})."
    return Verdict(claim, word, why, gap.n, gap.mean, gap.interval(), gap.mean - claim.margin, p)


def _equivalent(claim: Equivalent, gap: Estimate, said: str) -> Verdict:
    """Two one-sided paired tests. Source: Schuirmann 1987 (TOST). Differs: nothing."""
    word, p = _within(gap, 0.0, claim.margin)
    why = f"{said}; {_around(word, p, claim.margin, '0')}."
    return Verdict(claim, word, why, gap.n, gap.mean, gap.interval(), claim.margin - abs(gap.mean), p)


def _within(mean: Estimate, centre: float, margin: float) -> tuple[Word, float]:
    """Whether a mean lies within a margin of a centre, and the p of the test that decided."""
    ends = centre - margin, centre + margin
    inside = max(mean.p_above(ends[0]) or 0.0, mean.p_below(ends[1]) or 0.0)
    outside = min(mean.p_above(ends[1]) or 0.0, mean.p_below(ends[0]) or 0.0)
    if inside < ALPHA:
        return "SUPPORTED", inside
    return ("REFUTED", outside) if outside < ALPHA else ("INCONCLUSIVE", inside)


def _around(word: Word, p: float, margin: float, centre: str) -> str:
    place = {"SUPPORTED": "inside", "REFUTED": "outside", "INCONCLUSIVE": "not shown to be inside"}[word]
    return f"{place} a margin of {number(margin)} around {centre} (p {p_text(p)})"


def _score(name: str, scores: Scores, mean: Estimate) -> str:
    fallen = f", {len(scores.diverged)} diverged and counted at chance" if scores.diverged else ""
    return f"{name} scores {number(mean.mean)} ({between(scores.interval)}, {plural(scores.n, 'seed')}{fallen})"


def _gap(claim: Better | Equivalent, gap: Estimate, fallen: int) -> str:
    lost = f", {fallen} diverged and counted at chance" if fallen else ""
    numbers = f"{signed(gap.mean)} ({between(gap.interval())}, {plural(gap.n, 'pair')}{lost})"
    return f"{claim.who} minus {claim.than} is {numbers}"
