"""Claims judged: SUPPORTED, REFUTED, INCONCLUSIVE or NOT JUDGED, with the numbers behind and one line in plain words.

A claim is judged on the test scores of all seeds. It is SUPPORTED where its 95 % interval, one of all claims of the
study together and of all looks, lies wholly inside what it says, REFUTED where it lies wholly outside. What was found
at a look stays. A missing seed, or fewer than three, decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from search_spaces.claim import Claim
from search_spaces.study import Edition, Published
from search_spaces.words import listed, plural
from service.analysis.evidence import Evidence, Region, Word, claim_score, gather, lacking
from service.analysis.format import fixed, p_text
from service.analysis.multiple_testing import Adjusted, holm
from service.analysis.statistics import FEWEST, Estimate, Interval, Scores
from service.storage.history import History
from trainables.data import Data
from trainables.recipe.findings import DRAWN_AGAIN


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


DECIDED = ("SUPPORTED", "REFUTED")


@dataclass(frozen=True)
class Verdict:
    """A claim's answer.

    `n`: over how many seeds; `estimate`: the mean, the paired difference or the slope; `margin`: how far it lies inside
    the claim (negative: outside); `p`: of the test that decided, two-sided, adjusted for all claims of the study and
    for looks; `level`: what the p of this claim alone was held to. `unseen`: what seeds that were not seen might do.
    `later`: the verdict of the present look, where an earlier one found this. `where`: where a claim is not judged
    ("at smoke").
    """

    claim: Claim
    word: Word
    why: str
    n: int = 0
    estimate: Estimate | None = None
    level: float | None = None
    margin: float | None = None
    p: float | None = None
    unseen: str = ""
    later: Verdict | None = None
    where: str = ""

    @property
    def measured(self) -> float | None:
        """The mean, the paired difference or the slope; None before it can be tested."""
        return self.estimate.mean if self.estimate else None

    @property
    def interval(self) -> Interval | None:
        """The simultaneous 95 % interval that decided."""
        return self.estimate.interval(1 - self.level) if self.estimate and self.level else None

    @property
    def label(self) -> str:
        """The word, and where none is given: `NOT JUDGED at smoke`."""
        return f"{self.word} {self.where}".rstrip()

    @property
    def reason(self) -> str:
        """Why, and what later seeds say of what was found: `With 7 seeds: 0.0610, p = 0.034.`."""
        later = self.later
        if later is None:
            return self.why
        if later.measured is None:
            return f"{self.why} Later: {later.why}"
        return f"{self.why} With {plural(later.n, 'seed')}: {fixed(later.measured)}, p {p_text(later.p)}."

    def __str__(self) -> str:
        source = f" ({self.claim.source})" if self.claim.source else ""
        unseen = f" Seeds not seen: {self.unseen}." if self.unseen else ""
        return f"{self.label}: {self.claim}{source}. {self.reason}{unseen}"


COVERED = "Intervals hold for other seeds and for other images of this generator."
NOT_COVERED = "Intervals hold for other seeds on these test images; other images would move scores and differences."
FOLDS = "Seeds are folds of the same images; intervals and tests are wider for that (Nadeau and Bengio 2003)."
PARTLY = (
    "Where draws of images are counted, intervals hold for other images of the generator, too; elsewhere they hold for "
    "other seeds on these test images."
)
LIKE_THESE = "Intervals hold for other seeds and for other images like these; other training images are not covered."
PARTLY_LIKE_THESE = (
    "Where single test images are counted, intervals hold for other images like these, too; elsewhere they hold for "
    "other seeds on these test images. Other training images are not covered."
)


def images_words(draws: Iterable[int], sets: Iterable[Data]) -> str:
    """Returns what stands beside intervals and verdicts on the images that were scored.

    `draws`: of each interval. `sets`: the images that are shown together.
    """
    shown = [*sets]
    folds = next((data for data in shown if data.overlap), None)
    if folds and folds.cross_validated:
        return FOLDS
    generated = all(data.kind in DRAWN_AGAIN for data in shown)
    covered, partly = (COVERED, PARTLY) if generated else (LIKE_THESE, PARTLY_LIKE_THESE)
    counted = {count > 1 for count in draws}
    words = NOT_COVERED if True not in counted else partly if False in counted else covered
    return f"{FOLDS} {words}" if folds else words


def judge_page(
    claims: Sequence[Claim],
    scores_of: ScoresOf,
    differences: Mapping[str, float],
    departure: Departure | None = None,
    *,
    look: int = 1,
) -> tuple[list[Verdict], dict[str, Adjusted]]:
    """Returns the verdicts on all claims of a page, and the tests of its differences, all of them tested together.

    `differences`: the p of each, by name. `departure`: why the claims do not apply to this edition, if they do not.
    `look`: how many times verdicts could be seen, with this time (`History.looks`). A claim that cannot be decided yet
    counts as a test that finds nothing.
    """
    scores = [scores_of(claim) for claim in claims]
    missing = [lacking(*pair) for pair in zip(claims, scores, strict=True)]
    rows = zip(claims, scores, missing, strict=True)
    gathered = [None if why else gather(claim, of_trials) for claim, of_trials, why in rows]
    ps = {f"claim {place}": min(evidence.ps) if evidence else 1.0 for place, evidence in enumerate(gathered)}
    tests = holm(({} if departure and not departure.told else ps) | dict(differences), look)
    verdicts = [
        _decide(evidence, tests[f"claim {place}"])
        if evidence and f"claim {place}" in tests
        else _undecided(claim, scores[place], str(missing[place] or ""))
        for place, (claim, evidence) in enumerate(zip(claims, gathered, strict=True))
    ]
    if departure:
        verdicts = [_not_judged(*row, departure) for row in zip(claims, scores, verdicts, strict=True)]
    return verdicts, {name: tests[name] for name in differences}


def staying(now: Sequence[Verdict], before: Sequence[Verdict]) -> list[Verdict]:
    """Returns the verdicts on the same claims where what an earlier look found stays, with the seeds it had."""
    rows = zip(now, before, strict=True)
    return [replace(earlier, later=verdict) if earlier.word in DECIDED else verdict for verdict, earlier in rows]


def _decide(evidence: Evidence, test: Adjusted) -> Verdict:
    inside, outside = evidence.ps
    decided: Word = "SUPPORTED" if inside < outside else "REFUTED"
    word: Word = decided if test.significant else "INCONCLUSIVE"
    why = str(evidence.sentence(word, test))
    n, unseen = evidence.estimate.n, evidence.unseen(word)
    return Verdict(evidence.claim, word, why, n, evidence.estimate, test.level, evidence.margin, test.p, unseen)


def _undecided(claim: Claim, scores: Mapping[str, Scores], why: str) -> Verdict:
    return Verdict(claim, "INCONCLUSIVE", why, min(scores[name].n if name in scores else 0 for name in claim.names))


def _not_judged(claim: Claim, scores: Mapping[str, Scores], test: Verdict, departure: Departure) -> Verdict:
    """Returns the verdict on a claim that is not judged. `test`: what its test finds here, where that is told."""
    known = [(name, scores[name]) for name in claim.names if name in scores and scores[name].values]
    here = "; ".join(dict.fromkeys(str(claim_score(claim, name, trial)) for name, trial in known))
    if test.p is not None:
        here = f"it comes out {test.word}: {test.reason.removesuffix('.')}"
    why = departure.sentence + (f" Here {here}." if here else "")
    n = min((trial.n for _, trial in known), default=0) if len(known) == len(claim.names) else 0
    return Verdict(claim, "NOT JUDGED", why, n, where=departure.where)


Likeness = Literal["equal", "differs", "not resolved"]


@dataclass(frozen=True)
class Agreement:
    """A published number beside ours. `p`: of the test that decided, adjusted for all published numbers (Holm)."""

    known: Published
    word: Likeness
    p: float

    @property
    def found(self) -> bool:
        """Whether a test found something."""
        return self.word != "not resolved"

    @property
    def words(self) -> str:
        """`equal within 0.01`, `differs by more than 0.01`, `not resolved within 0.01`."""
        words = {"equal": "equal within", "differs": "differs by more than", "not resolved": "not resolved within"}
        return f"{words[self.word]} {self.known.within or 0.0:g}"


def agreements(
    published: Sequence[Published],
    scores: Mapping[str, Scores],
    comparable: Callable[[Published], bool],
    look: int = 1,
) -> dict[int, Agreement]:
    """Returns the judged ones of a study's published numbers, by their place in it.

    Those with a margin (`Published.within`) that are comparable (`StudyResult.comparable`), and whose trial has all its
    seeds, none of them diverged.
    """
    sound = {name for name, trial in scores.items() if trial.complete and not trial.diverged and trial.n >= FEWEST}
    known = {
        place: figure
        for place, figure in enumerate(published)
        if figure.within is not None and comparable(figure) and figure.who in sound
    }
    return judge_published(known, scores, look)


def judge_published(
    known: Mapping[int, Published], scores: Mapping[str, Scores], look: int = 1
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
    supports, refutes = holm(inside, look), holm(outside, look)
    return {place: _agreement(figure, supports[str(place)], refutes[str(place)]) for place, figure in known.items()}


def _agreement(known: Published, equal: Adjusted, other: Adjusted) -> Agreement:
    if equal.significant:
        return Agreement(known, "equal", equal.p)
    return Agreement(known, "differs", other.p) if other.significant else Agreement(known, "not resolved", equal.p)
