"""Claims judged: SUPPORTED, REFUTED, INCONCLUSIVE or NOT JUDGED, with the numbers behind and one line in plain words.

A claim is judged on the test scores of all seeds that were asked for, by one-sided tests at the level ALPHA, adjusted
for all claims of the study (Holm). Fewer than three seeds, or a missing one, decide nothing; a diverged seed counts at
chance, and cannot show that two things are alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from search_spaces.claim import Claim
from search_spaces.words import plural
from service.analysis.claims.evidence import Evidence, gather, lacking, score_words
from service.analysis.claims.question import Departure
from service.analysis.claims.region import Word
from service.analysis.estimates.power import MANY, POWER, seeds_needed
from service.analysis.format import between, p_text, percent
from service.analysis.statistics import ALPHA, Adjusted, Interval, Scores, holm

ScoresOf = Callable[[Claim], Mapping[str, Scores]]
"""The scores that a claim is judged on, by the names that claims use: of the test set, or of a probe."""


@dataclass(frozen=True)
class Verdict:
    """A claim's answer.

    `measured`: the mean, the paired difference or the slope, over `n` seeds; `interval`: the one that decided, at
    `confidence`; `margin`: how far `measured` lies inside the claim (negative: outside); `p`: of the test that decided,
    adjusted for all claims of the study. `needed`: the seeds that would probably decide what these do not; None for
    more than are counted. `where`: where a claim is not judged ("at smoke").
    """

    claim: Claim
    word: Word
    why: str
    n: int = 0
    measured: float | None = None
    interval: Interval | None = None
    confidence: float | None = None
    margin: float | None = None
    p: float | None = None
    needed: int | None = None
    where: str = ""

    @property
    def label(self) -> str:
        """The word, with where a claim is not judged: `NOT JUDGED at smoke`."""
        return f"{self.word} {self.where}".rstrip()

    def __str__(self) -> str:
        source = f" ({self.claim.source})" if self.claim.source else ""
        return f"{self.label}: {self.claim}{source}. {self.why}"


def judge(claims: Sequence[Claim], scores_of: ScoresOf, departure: Departure | None = None) -> list[Verdict]:
    """The verdicts on all claims of a study. `departure`: why they do not apply to this edition, if they do not."""
    scores = [scores_of(claim) for claim in claims]
    if departure is None:
        return _judged(claims, scores)
    tests = _judged(claims, scores) if departure.told else [None] * len(claims)
    return [_not_judged(*one, departure) for one in zip(claims, scores, tests, strict=True)]


def _judged(claims: Sequence[Claim], scores: Sequence[Mapping[str, Scores]]) -> list[Verdict]:
    missing = [lacking(*pair) for pair in zip(claims, scores, strict=True)]
    found = {place: gather(claim, scores[place]) for place, claim in enumerate(claims) if missing[place] is None}
    supports = _adjusted(len(claims), {place: evidence.p_supports for place, evidence in found.items()})
    refutes = _adjusted(len(claims), {place: evidence.p_refutes for place, evidence in found.items()})
    return [
        _undecided(claim, scores[place], missing[place] or "")
        if place not in found
        else _decide(found[place], supports[place], refutes[place], len(claims))
        for place, claim in enumerate(claims)
    ]


def _adjusted(count: int, ps: Mapping[int, float]) -> dict[int, Adjusted]:
    """Holm's correction over all claims; one that cannot be decided yet counts as a test that found nothing."""
    adjusted = holm({str(place): ps.get(place, 1.0) for place in range(count)})
    return {int(place): found for place, found in adjusted.items()}


def _decide(evidence: Evidence, supports: Adjusted, refutes: Adjusted, claims: int) -> Verdict:
    word: Word = "SUPPORTED" if supports.p < ALPHA else "REFUTED" if refutes.p < ALPHA else "INCONCLUSIVE"
    confidences = {
        "SUPPORTED": 1 - 2 * supports.level,
        "REFUTED": 1 - 2 * refutes.level / evidence.refuting_tests,
    }
    confidence = confidences.get(word, max(confidences.values()))
    p = refutes.p if word == "REFUTED" else supports.p
    interval = evidence.found.interval(confidence)
    shown = f"{percent(confidence)} interval {between(interval)}"
    tests = f", Holm over {plural(claims, 'claim')}" if claims > 1 else ""
    why = f"{evidence.words(shown)}; {evidence.region.place(word)} (p {p_text(p)}{tests})."
    needed = None
    if word == "INCONCLUSIVE":
        inside = evidence.margin > 0
        needed = _seeds_needed(evidence, supports.level if inside else refutes.level / evidence.refuting_tests)
        many = f"More than {MANY:,}" if needed is None else f"About {needed}"
        why += f" {many} seeds in all would decide it (power {POWER:.0%}), if the measured mean and deviation are true."
    found = evidence.found
    return Verdict(
        evidence.claim, word, why, found.n, found.mean, interval, confidence, evidence.margin, p, needed=needed
    )


def _seeds_needed(evidence: Evidence, level: float) -> int | None:
    """So many seeds put the interval on one side of each end of the claim that matters, with the probability `POWER`.

    `level`: of the one-sided test that would decide, adjusted for all claims.
    """
    found = evidence.found
    assert found.error is not None, "an estimate that can be tested comes first"
    std = found.error * math.sqrt(found.n)
    return seeds_needed(*evidence.region.distances(found), std=std, alpha=2 * level)


def _undecided(claim: Claim, scores: Mapping[str, Scores], why: str) -> Verdict:
    counts = [scores[name].n if name in scores else 0 for name in claim.names]
    return Verdict(claim, "INCONCLUSIVE", why, min(counts))


def _not_judged(claim: Claim, scores: Mapping[str, Scores], test: Verdict | None, departure: Departure) -> Verdict:
    """`test`: what the claim's test finds here, where that is told."""
    known = [(name, scores[name]) for name in claim.names if name in scores and scores[name].values]
    here = "; ".join(dict.fromkeys(score_words(claim, name, found) for name, found in known))
    if test is not None and test.interval is not None:
        here = f"it comes out {test.word}: {test.why.removesuffix('.')}"
    why = departure.sentence + (f" Here {here}." if here else "")
    n = min((found.n for _, found in known), default=0) if len(known) == len(claim.names) else 0
    return Verdict(claim, "NOT JUDGED", why, n, where=departure.where)
