"""Claims judged: SUPPORTED, REFUTED, INCONCLUSIVE or NOT JUDGED, with the numbers behind and one line in plain words.

A claim is judged on the test scores of the seeds that learn, by one-sided tests at the level of the look (`level_of`),
adjusted for all claims of the study (Holm). How many seeds learn stands beside it, and a verdict says that it is one of
seeds that learn where it would not hold with as many failing seeds as may be. A missing seed, or fewer than three that
learn, decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from search_spaces.claim import Claim
from search_spaces.study import Edition, Published
from search_spaces.words import listed, plural
from service.analysis.evidence import Decided, Evidence, Region, Word, gather, lacking, learn_words, score_words
from service.analysis.format import ordinal, p_text
from service.analysis.multiple_testing import Adjusted, holm
from service.analysis.power import MANY, POWER, seeds_needed, std_interval
from service.analysis.scores import counts
from service.analysis.statistics import ALPHA, Interval, Scores, level_of
from service.storage.history import History
from trainables.data import Data


@dataclass(frozen=True)
class Departure:
    """Why a study's claims are not judged at an edition. `where`: "at smoke"; `why`: a clause.

    `told`: what the tests find here is said all the same: with values of their own, users ask how the claims fare.
    """

    where: str
    why: str
    told: bool = False

    @property
    def sentence(self) -> str:
        """`why` as a sentence; a path keeps its small letter."""
        first = self.why.partition(" ")[0]
        start = self.why[:1] if "." in first else self.why[:1].upper()
        return f"{start}{self.why[1:]}."


def departure(edition: Edition) -> Departure | None:
    """Returns how an edition leaves its study's question; None if it does not.

    A budget with a `gap` leaves it, for the reason in its text. An edition with values of the user's own leaves it,
    too: any value may change the question, and no study lists values that do not.
    """
    budget = edition.study.budgets.get(edition.budget)
    own, gap = _own_words(edition), budget.gap if budget else ""
    if gap:
        return Departure(f"at {edition.budget}", f"{gap}; and {own}" if own else gap)
    return Departure("with own values", own, told=True) if own else None


def _own_words(edition: Edition) -> str:
    own = [path for path in edition.own_paths if not path.endswith(".source")]
    if not own:
        return ""
    named = listed(own) if len(own) <= 2 else f"{own[0]} and {len(own) - 1} more"
    return f"{named} {'differs' if len(own) == 1 else 'differ'} from the study's values"


def written_words(history: History) -> str:
    """Returns whether the claims were written before the runs, in a sentence; empty if the journal does not say."""
    known, begun = history.claims_since, history.begun
    if not known or begun is None:
        return ""
    since = known.get(history.edition.claims_digest)
    if since is None:
        return "These claims were written after the last run."
    if since <= begun:
        reused = any(state.reused for state in history.states.values())
        before = " Some of its runs are those of another study, trained before." if reused else ""
        return f"These claims were written before the first run{' of this study' if reused else ''}.{before}"
    day = datetime.fromtimestamp(since, UTC).strftime("%-d %B %Y")
    return f"These claims were written, or changed, on {day}, after the first run."


ScoresOf = Callable[[Claim], Mapping[str, Scores]]
"""The scores that a claim is judged on, by the names that claims use: of the test set, or of a probe."""


@dataclass(frozen=True)
class Verdict:
    """A claim's answer.

    `measured`: the mean, the paired difference or the slope, over `n` seeds that learn; `interval`: the one that
    decided, at `confidence`; `margin`: how far `measured` lies
    inside the claim (negative: outside); `p`: of the test that decided, adjusted for all claims of the study. `scope`:
    "of seeds that learn" where seeds that may fail could change the verdict; of a claim on chance, "of seeds that do
    not learn". `needed`: from how many to how many seeds would probably decide what these do not, where that is known;
    None for more than are counted. `where`: where a claim is not judged ("at smoke"). `draws`: over how many draws of
    test images its error was measured.
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
    scope: str = ""
    needed: tuple[int | None, int | None] | None = None
    where: str = ""
    draws: int = 1

    @property
    def label(self) -> str:
        """The word, with what it is a verdict on, or where none is given: `NOT JUDGED at smoke`."""
        return f"{self.word} {self.scope or self.where}".rstrip()

    def __str__(self) -> str:
        source = f" ({self.claim.source})" if self.claim.source else ""
        return f"{self.label}: {self.claim}{source}. {self.why}"


COVERED = "Intervals hold for other seeds and for other images of this generator."
NOT_COVERED = "Another draw of images would move scores and differences; that is not in these intervals."
FOLDS = "Seeds are folds of the same images; intervals and tests are wider for that (Nadeau and Bengio 2003)."
PARTLY = (
    "Where draws of images are counted, intervals hold for other images of the generator, too; elsewhere another draw "
    "of images would move scores and differences, and that is not in the intervals."
)


def images_words(draws: Iterable[int], data: Data) -> str:
    """Returns what stands beside intervals and verdicts on the images that were scored. `draws`: of each interval."""
    if data.overlap:
        return FOLDS if data.cross_validated else f"{FOLDS} {NOT_COVERED}"
    counted = {count > 1 for count in draws}
    return NOT_COVERED if True not in counted else PARTLY if False in counted else COVERED


def judge(
    claims: Sequence[Claim], scores_of: ScoresOf, departure: Departure | None = None, *, look: int = 1
) -> list[Verdict]:
    """Returns the verdicts on all claims of a study.

    `departure`: why they do not apply to this edition, if they do not. `look`: how many times verdicts could be seen,
    with this time (`History.looks`).
    """
    scores = [scores_of(claim) for claim in claims]
    if departure is None:
        return _judged(claims, scores, look)
    tests = _judged(claims, scores, look) if departure.told else [None] * len(claims)
    return [_not_judged(*row, departure) for row in zip(claims, scores, tests, strict=True)]


def _judged(claims: Sequence[Claim], scores: Sequence[Mapping[str, Scores]], look: int) -> list[Verdict]:
    missing = [lacking(*pair) for pair in zip(claims, scores, strict=True)]
    gathered = {place: gather(claim, scores[place]) for place, claim in enumerate(claims) if missing[place] is None}
    supports = _adjusted(len(claims), {place: evidence.p_supports for place, evidence in gathered.items()}, look)
    refutes = _adjusted(len(claims), {place: evidence.p_refutes for place, evidence in gathered.items()}, look)
    return [
        _undecided(claim, scores[place], missing[place] or "")
        if place not in gathered
        else _decide(gathered[place], supports[place], refutes[place], len(claims), look)
        for place, claim in enumerate(claims)
    ]


def _adjusted(count: int, ps: Mapping[int, float], look: int) -> dict[int, Adjusted]:
    """Adjusts ps by Holm's correction over all claims; one that cannot be decided yet counts as finding nothing."""
    adjusted = holm({str(place): ps.get(place, 1.0) for place in range(count)}, level_of(look))
    return {int(place): test for place, test in adjusted.items()}


def _decide(evidence: Evidence, supports: Adjusted, refutes: Adjusted, claims: int, look: int) -> Verdict:
    decided: Decided | None = "SUPPORTED" if supports.significant else "REFUTED" if refutes.significant else None
    word: Word = decided or "INCONCLUSIVE"
    estimate, held = evidence.estimate, refutes if word == "REFUTED" else supports
    confidences = {
        "SUPPORTED": 1 - 2 * supports.level,
        "REFUTED": 1 - 2 * refutes.level / evidence.region.ends,
    }
    confidence = confidences.get(word, max(confidences.values()))
    interval = estimate.interval(confidence)
    tests = f", Holm over {plural(claims, 'claim')}" if claims > 1 else ""
    at = f", {ordinal(look)} look, level {held.alpha:.3g}" if look > 1 else ""
    why = f"{evidence.words(word, confidence)} (p {p_text(held.p)}{tests}{at})"
    scope, needed = "", None
    if decided and (but := evidence.opposed(decided, held.alpha)):
        word, why = "INCONCLUSIVE", f"{why}, {but}"
    elif decided and not evidence.holds_for_all(decided, held.level):
        scope = evidence.scope
    why += "."
    if word == "SUPPORTED":
        why += evidence.ceiling
    if not decided:
        level = supports.level if evidence.margin > 0 else refutes.level / evidence.region.ends
        needed = _seeds_needed(evidence, level * level_of(look + 1) / level_of(look))
        why += _needed_words(needed) if needed else ""
    if evidence.learners:
        why += f" {learn_words(evidence.parts)}"
    held_at, margin = confidence if interval else None, evidence.margin
    return Verdict(
        evidence.claim, word, why, estimate.n, estimate.mean, interval, held_at, margin, held.p, scope, needed,
        draws=estimate.draws,
    )  # fmt: skip


FEWEST_TO_COUNT = 5
"""With fewer seeds their spread is too uncertain to say how many would decide."""


def _seeds_needed(evidence: Evidence, level: float) -> tuple[int | None, int | None] | None:
    """Returns the range of seeds that put the interval on one side of each end that matters, with the power `POWER`.

    The first number is right if the seeds spread as little as they may, the second if as much (`std_interval`). None
    for few seeds, and where some fail. `level`: of the one-sided test that would decide at the next look.
    """
    estimate = evidence.estimate
    failed = any(learnt < tried for learnt, tried in (counts(scores) for _, scores, _ in evidence.parts))
    if estimate.spread is None or estimate.n < FEWEST_TO_COUNT or failed:
        return None
    spreads = std_interval(estimate.spread, estimate.n - 1)
    away = evidence.region.distances(estimate)
    low, high = (seeds_needed(*away, std=std, alpha=2 * level, like=estimate) for std in spreads)
    return low, high


def _needed_words(needed: tuple[int | None, int | None]) -> str:
    low, high = needed
    if low is None:
        return f" More than {MANY:,} seeds in all would decide it at the next look."
    many = f"About {low}" if low == high else f"{low} to {high or f'more than {MANY:,}'}"
    return f" {many} seeds in all would decide it at the next look (power {POWER:.0%}), if the measured mean is true."


def _undecided(claim: Claim, scores: Mapping[str, Scores], why: str) -> Verdict:
    return Verdict(claim, "INCONCLUSIVE", why, min(scores[name].n if name in scores else 0 for name in claim.names))


def _not_judged(claim: Claim, scores: Mapping[str, Scores], test: Verdict | None, departure: Departure) -> Verdict:
    """Returns the verdict on a claim that is not judged. `test`: what its test finds here, where that is told."""
    known = [(name, scores[name]) for name in claim.names if name in scores and scores[name].values]
    here = "; ".join(dict.fromkeys(score_words(claim, name, trial) for name, trial in known))
    if test is not None and test.p is not None:
        here = f"it comes out {test.word}: {test.why.removesuffix('.')}"
    why = departure.sentence + (f" Here {here}." if here else "")
    n = min((trial.n for _, trial in known), default=0) if len(known) == len(claim.names) else 0
    return Verdict(claim, "NOT JUDGED", why, n, where=departure.where)


Likeness = Literal["equal", "differs", "not resolved"]


@dataclass(frozen=True)
class Agreement:
    """A published number beside ours. `p`: of the test that decided, adjusted for all published numbers (Holm).

    `learnt`: how many seeds learn, of how many; the test is of those that do.
    """

    known: Published
    word: Likeness
    p: float
    learnt: tuple[int, int]

    @property
    def words(self) -> str:
        """`equal within 0.01`, `differs by more than 0.01`, `not resolved within 0.01`."""
        words = {"equal": "equal within", "differs": "differs by more than", "not resolved": "not resolved within"}
        learnt, seeds = self.learnt
        whose = f" of seeds that learn ({learnt} of {seeds})" if learnt < seeds else ""
        return f"{words[self.word]} {self.known.within or 0.0:g}{whose}"


def agreements(
    published: Sequence[Published],
    scores: Mapping[str, Scores],
    comparable: Callable[[Published], bool],
    alpha: float = ALPHA,
) -> dict[int, Agreement]:
    """Returns the judged ones of a study's published numbers, by their place in it.

    Those with a margin (`Published.within`) that are comparable (`StudyResult.comparable`), and whose trial has all its
    seeds, none of them diverged.
    """
    known = {
        place: figure
        for place, figure in enumerate(published)
        if figure.within is not None and comparable(figure) and _sound(scores.get(figure.who))
    }
    return judge_published(known, scores, alpha)


def judge_published(
    known: Mapping[int, Published], scores: Mapping[str, Scores], alpha: float = ALPHA
) -> dict[int, Agreement]:
    """Returns two one-sided tests around each published value, and the tests against them; adjusted for all together.

    Source: Schuirmann 1987 (TOST). Differs: the published value counts as exact, as its own spread is over other
    seeds, or not known.
    """
    inside, outside = {}, {}
    for place, figure in known.items():
        estimate = scores[figure.who].estimate
        assert estimate is not None
        assert figure.within is not None
        region = Region(figure.value - figure.within, figure.value + figure.within)
        inside[str(place)], outside[str(place)] = region.p_inside(estimate), region.p_outside(estimate)
    supports, refutes = holm(inside, alpha), holm(outside, alpha)
    return {
        place: _agreement(figure, supports[str(place)], refutes[str(place)], counts(scores[figure.who]))
        for place, figure in known.items()
    }


def _agreement(known: Published, equal: Adjusted, other: Adjusted, learnt: tuple[int, int]) -> Agreement:
    if equal.significant:
        return Agreement(known, "equal", equal.p, learnt)
    if other.significant:
        return Agreement(known, "differs", other.p, learnt)
    return Agreement(known, "not resolved", equal.p, learnt)


def _sound(scores: Scores | None) -> bool:
    if scores is None or not scores.complete or scores.diverged or scores.estimate is None:
        return False
    return scores.estimate.testable
