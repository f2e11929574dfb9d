"""Claims judged: SUPPORTED, REFUTED, INCONCLUSIVE or NOT JUDGED, with the numbers behind and one line in plain words.

A claim is judged on the test scores of all seeds. It is SUPPORTED if its 95 % interval, which holds for all claims of
the study and all looks together, lies wholly inside the region that the claim names, and REFUTED if it lies wholly
outside. A look is one time at which verdicts are computed; what was found at a look stays. A claim with a missing seed,
or with fewer than three seeds, stays undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from search_spaces.claim import Claim
from search_spaces.study import Edition, Published
from service.analysis.evidence import Region, Word, claim_score, gather, lacking
from service.analysis.findings import finding
from service.analysis.multiple_testing import Adjusted, holm
from service.analysis.statistics import FEWEST, Estimate, Interval, Scores
from service.storage.history import History
from trainables.data import Data
from trainables.recipe.findings import DRAWN_AGAIN


@dataclass(frozen=True)
class Departure:
    """The reason why a study's claims are not judged at an edition (a study at one budget, with a user's values).

    `where` is a phrase such as "at smoke", and `why` a clause. `told` says whether to tell what the tests find all the
    same: users with values of their own ask how the claims fare.
    """

    where: str
    why: str
    told: bool = False

    @property
    def sentence(self) -> str:
        """The clause `why` as a sentence."""
        return str(finding("departure.sentence", why=self.why))


def departure(edition: Edition) -> Departure | None:
    """Returns the reason why an edition does not answer its study's question; None if it does.

    A budget with a `gap` leaves it, for the reason in its text. An edition with values of the user's own leaves it,
    too: any value may change the question, and no study lists values that do not.
    """
    budget = edition.study.budgets.get(edition.budget)
    gap, change = budget.gap if budget else "", None
    paths = [path for path in edition.own_paths if not path.endswith(".source")]
    if paths:
        named = paths if len(paths) <= 2 else [paths[0], finding("part.more", count=len(paths) - 1)]
        change = finding(f"departure.{'values' if len(paths) > 1 else 'value'}", paths=named)
    if gap:
        why = finding("departure.gap and values", gap=gap, change=change) if change else gap
        return Departure(f"at {edition.budget}", str(why))
    return Departure("with own values", str(change), told=True) if change else None


def written_words(history: History) -> str:
    """Returns a sentence that says whether the claims were written before the runs; empty if that is not known."""
    if not history.claims_since or history.begun is None:
        return ""
    since = history.claims_since.get(history.edition.claims_digest)
    if since is None:
        return str(finding("claims.after the last run"))
    if since > history.begun:
        day = datetime.fromtimestamp(since, UTC).strftime("%-d %B %Y")
        return str(finding("claims.after the first run", day=day))
    reused = any(state.reused for state in history.states.values())
    return str(finding("claims.before its own runs" if reused else "claims.before the runs"))


ScoresOf = Callable[[Claim], Mapping[str, Scores]]
"""A function that returns the scores on which a claim is judged, by the names that claims use."""


DECIDED = ("SUPPORTED", "REFUTED")
"""The words of verdicts that stay at later looks."""


@dataclass(frozen=True)
class Verdict:
    """What the scores of `n` seeds say about a claim.

    `word` is the result, and `why` the reason. `estimate` is the mean, the paired difference or the slope; `margin` is
    how far it lies inside the claim's region (negative if outside). `p` is the two-sided p-value of the test that
    decided, adjusted for all claims of the study and for looks; `level` is the level of the test of this claim alone.
    `unseen` says what seeds that were not run might do. `later` is the verdict of the present look, if an earlier look
    found this one. `where` says where a claim is not judged ("at smoke").
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
        """The mean, the paired difference or the slope; None before the claim can be tested."""
        return self.estimate.mean if self.estimate else None

    @property
    def interval(self) -> Interval | None:
        """The simultaneous 95 % interval by which the claim was judged; None before the claim can be tested."""
        return self.estimate.interval(1 - self.level) if self.estimate and self.level else None

    @property
    def label(self) -> str:
        """The word of the verdict, with where a claim is not judged: `NOT JUDGED at smoke`."""
        return f"{self.word} {self.where}".rstrip()

    @property
    def reason(self) -> str:
        """The reason of the verdict, with what later seeds say: `With 7 seeds: 0.0610, p = 0.034.`."""
        later = self.later
        if later is None:
            return self.why
        if later.measured is None:
            return str(finding("verdict.later lacks", why=self.why, later=later.why))
        return str(finding("verdict.later", why=self.why, seeds=later.n, measured=later.measured, p=later.p))

    def __str__(self) -> str:
        source, unseen = self.claim.source or None, self.unseen or None
        values = {"label": self.label, "claim": self.claim, "source": source, "reason": self.reason, "unseen": unseen}
        return str(finding("verdict", **values))


def images_words(draws: Iterable[int], sets: Iterable[Data]) -> str:
    """Returns sentences that say for which test images the intervals and verdicts hold.

    `draws` has `Estimate.draws` of each interval. `sets` are the data of the trials that are shown together.
    """
    images = [*sets]
    folds = next((data for data in images if data.overlap), None)
    if folds and folds.cross_validated:
        return str(finding("images.folds"))
    generated = all(data.kind in DRAWN_AGAIN for data in images)
    counted = {count > 1 for count in draws}
    if True not in counted:
        kind = "images.these"
    else:
        kind = f"images.{'some' if False in counted else 'all'} of {'the generator' if generated else 'their kind'}"
    sentences = [finding("images.folds"), finding(kind)] if folds else [finding(kind)]
    return " ".join(map(str, sentences))


def judge_page(
    claims: Sequence[Claim],
    scores_of: ScoresOf,
    differences: Mapping[str, float],
    departure: Departure | None = None,
    *,
    look: int = 1,
) -> tuple[list[Verdict], dict[str, Adjusted]]:
    """Returns the verdicts on all claims of a page, and the tests of its differences, all of them tested together.

    A claim that cannot be decided yet counts as a test that finds nothing.

    Args:
        claims: The claims of the study.
        scores_of: The function that returns the scores on which a claim is judged.
        differences: The p-value of each difference, by name.
        departure: The reason why the claims do not apply to this edition; None if they do.
        look: How many times verdicts could be seen, with this time (`History.looks`).
    """
    scores = [scores_of(claim) for claim in claims]
    missing = [lacking(claim, trials) for claim, trials in zip(claims, scores, strict=True)]
    rows = [*zip(claims, scores, missing, strict=True)]
    gathered = [None if reason else gather(claim, trials) for claim, trials, reason in rows]
    pairs = [evidence.region.ps(evidence.estimate) if evidence else (1.0, 1.0) for evidence in gathered]
    ps = {} if departure and not departure.told else {f"claim {n}": min(pair) for n, pair in enumerate(pairs)}
    tests = holm(ps | dict(differences), look)
    verdicts = []
    for number, ((claim, trials, reason), evidence) in enumerate(zip(rows, gathered, strict=True)):
        test = tests.get(f"claim {number}")
        if evidence and test:
            inside, outside = pairs[number]
            decided: Word = "SUPPORTED" if inside < outside else "REFUTED"
            word: Word = decided if test.significant else "INCONCLUSIVE"
            why, unseen, estimate = str(evidence.sentence(word, test)), evidence.unseen(word), evidence.estimate
            verdict = Verdict(claim, word, why, estimate.n, estimate, test.level, evidence.margin, test.p, unseen)
        else:
            fewest = min(trials[name].n if name in trials else 0 for name in claim.names)
            verdict = Verdict(claim, "INCONCLUSIVE", str(reason or ""), fewest)
        if departure:  # what the test finds here, or the scores, stand behind the reason
            measured = {name: trials[name] for name in claim.names if name in trials and trials[name].values}
            sentence: object = departure.sentence
            if verdict.p is not None:
                sentence = finding("verdict.not judged, test", why=sentence, word=verdict.word, reason=verdict.reason)
            elif measured:
                here = [*dict.fromkeys(str(claim_score(claim, name, trial)) for name, trial in measured.items())]
                sentence = finding("verdict.not judged, scores", why=sentence, scores=here)
            n = min(trial.n for trial in measured.values()) if {*measured} == {*claim.names} else 0
            verdict = Verdict(claim, "NOT JUDGED", str(sentence), n, where=departure.where)
        verdicts.append(verdict)
    return verdicts, {name: tests[name] for name in differences}


def staying(now: Sequence[Verdict], before: Sequence[Verdict]) -> list[Verdict]:
    """Returns, for each claim, the earlier verdict if it is decided, with its seeds, else the present verdict."""
    rows = zip(now, before, strict=True)
    return [replace(earlier, later=verdict) if earlier.word in DECIDED else verdict for verdict, earlier in rows]


Likeness = Literal["equal", "differs", "not resolved"]


@dataclass(frozen=True)
class Agreement:
    """What tests say of a published number and the score here: equal within the margin, different, or not resolved.

    `p` is the p-value of the test that decided, adjusted for all published numbers (Holm).
    """

    published: Published
    word: Likeness
    p: float

    @property
    def found(self) -> bool:
        """Whether a test decided that the numbers are equal, or that they differ."""
        return self.word != "not resolved"

    @property
    def words(self) -> str:
        """The result in words: `equal within 0.01`, `differs by more than 0.01`, or `not resolved within 0.01`."""
        return str(finding(f"published.{self.word}", margin=self.published.within or 0.0))


def agreements(
    published: Sequence[Published],
    scores: Mapping[str, Scores],
    comparable: Callable[[Published], bool],
    look: int = 1,
) -> dict[int, Agreement]:
    """Returns what tests say of a study's published numbers, by their index in the study.

    A number is judged if it has a margin (`Published.within`), is comparable (`StudyResult.comparable`), and its trial
    has all its seeds, at least three, and none of them diverged.
    """
    sound = {name for name, trial in scores.items() if trial.complete and not trial.diverged and trial.n >= FEWEST}
    figures = {
        number: figure
        for number, figure in enumerate(published)
        if figure.within is not None and comparable(figure) and figure.who in sound
    }
    return judge_published(figures, scores, look)


def judge_published(
    figures: Mapping[int, Published], scores: Mapping[str, Scores], look: int = 1
) -> dict[int, Agreement]:
    """Returns what tests say of each published number: two one-sided tests for equality, and the test for a difference.

    All numbers are adjusted together.

    Source: Schuirmann 1987 (TOST). Differs: the published value counts as exact, as its own spread is over other
    seeds, or not known.
    """
    inside, outside = {}, {}
    for number, figure in figures.items():
        estimate = scores[figure.who].estimate
        assert estimate is not None
        assert figure.within is not None
        region = Region(figure.value - figure.within, figure.value + figure.within)
        inside[str(number)], outside[str(number)] = region.ps(estimate)
    supports, refutes = holm(inside, look), holm(outside, look)
    judged = {}
    for number, figure in figures.items():
        equal, other = supports[str(number)], refutes[str(number)]
        word: Likeness = "equal" if equal.significant else "differs" if other.significant else "not resolved"
        judged[number] = Agreement(figure, word, other.p if word == "differs" else equal.p)
    return judged
