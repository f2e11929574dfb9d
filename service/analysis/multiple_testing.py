"""Several tests together: p-values adjusted by Holm, and differences with intervals that agree with adjusted p."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from search_spaces.words import listed, quoted
from service.analysis.scores import opposing_p
from service.analysis.statistics import ALPHA, Estimate, Interval, Scores, difference


@dataclass(frozen=True)
class Adjusted:
    """A p-value adjusted for several tests, and the level that the unadjusted one was held to.

    `alpha`: the level of all these tests together, `tests` in number. The unadjusted p lies below `level` exactly where
    `p` lies below `alpha`, so an interval at `level` agrees with `p`.
    """

    p: float
    level: float
    alpha: float = ALPHA
    tests: int = 1

    @property
    def significant(self) -> bool:
        """Whether the test found something."""
        return self.p < self.alpha


def holm(ps: Mapping[str, float], alpha: float = ALPHA) -> dict[str, Adjusted]:
    """Adjusts p-values, by name, for having tested all of them at the level `alpha`.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure; an interval at each test's own level:
    Serlin 1993, Confidence intervals and the scientific method. Differs: adjusted p-values are returned, the running
    maximum of (m - rank) p, cut at 1.
    """
    adjusted: dict[str, Adjusted] = {}
    largest, level, going = 0.0, alpha, True
    for rank, name in enumerate(sorted(ps, key=lambda name: ps[name])):
        tests = len(ps) - rank
        level = alpha / tests if going else level
        going = going and ps[name] < level
        largest = max(largest, min(1.0, tests * ps[name]))
        adjusted[name] = Adjusted(largest, level, alpha, len(ps))
    return {name: adjusted[name] for name in ps}


@dataclass(frozen=True)
class Difference:
    """A difference of test scores, `who` minus `than`, with its p adjusted for all differences of its table (Holm).

    `claimed`: whether a claim of the study asks which of the two is better. Such a pair is tested once, by the claim,
    so p, level and interval are those of its verdict, and its test has one side.
    """

    who: Scores
    than: Scores
    estimate: Estimate
    adjusted: Adjusted | None
    claimed: bool = False

    @property
    def mean(self) -> float:
        """The mean difference."""
        return self.estimate.mean

    @property
    def p(self) -> float | None:
        """The adjusted p, two-sided where no claim tests it; None for too few pairs."""
        return self.adjusted.p if self.adjusted else None

    @cached_property
    def opposed(self) -> bool:
        """Whether the trial with the higher scores learns less often, so that neither is better, whatever p is.

        It is asked where the scores are tested, at the level of all these tests together.
        """
        if self.adjusted is None:
            return False
        better, worse = (self.who, self.than) if self.mean > 0 else (self.than, self.who)
        return opposing_p(better, worse, self.adjusted.alpha) is not None

    @property
    def significant(self) -> bool:
        """Whether the adjusted test found something that nothing speaks against."""
        return self.adjusted is not None and self.adjusted.significant and not self.opposed

    @property
    def interval(self) -> Interval | None:
        """The interval at the level of Holm's test: it leaves out 0 exactly where it found something."""
        return self.estimate.interval(self.confidence) if self.adjusted else None

    @property
    def confidence(self) -> float:
        """The level of `interval`."""
        return 1 - self.adjusted.level if self.adjusted else 0.0


def compare_best(best: str, trials: Mapping[str, Scores], alpha: float = ALPHA) -> dict[str, Difference]:
    """Compares the best of some trials with each other one, paired by seed: best minus other.

    The best was chosen among all, so all pairs of trials are tested together: with the others alone, one of them would
    be told apart from the best of equal trials far too often.
    """
    order = [best, *(name for name in trials if name != best)]
    pairs = {(who, than): (trials[who], trials[than]) for who, than in combinations(order, 2)}
    known = {f"{who}\n{than}": pair for (who, than), pair in pairs.items()}
    gaps = compare_pairs(known, alpha)
    return {than: gaps[name] for name, (who, than) in zip(known, pairs, strict=True) if who == best and name in gaps}


def compare_pairs(
    pairs: Mapping[str, tuple[Scores, Scores]], alpha: float = ALPHA, claimed: Mapping[str, Adjusted] | None = None
) -> dict[str, Difference]:
    """Compares pairs of trials by name: the first of each two minus the second, tested as `together` does."""
    gaps = {name: (who, than, difference(who, than)) for name, (who, than) in pairs.items()}
    return together({name: (who, than, gap) for name, (who, than, gap) in gaps.items() if gap}, alpha, claimed)


def together(
    gaps: Mapping[str, tuple[Scores, Scores, Estimate]],
    alpha: float = ALPHA,
    claimed: Mapping[str, Adjusted] | None = None,
) -> dict[str, Difference]:
    """Tests differences together at the level `alpha`, by name. `gaps`: two trials, and the first minus the second.

    `claimed`: those that a claim alone tests, by name.
    """
    own = claimed or {}
    ps = {name: p for name, (*_, gap) in gaps.items() if name not in own and (p := gap.p()) is not None}
    tests = {**holm(ps, alpha), **own}
    return {name: Difference(*gap, tests.get(name), name in own) for name, gap in gaps.items()}


def opposed_words(gaps: Mapping[str, Difference]) -> str:
    """Lists the differences that find nothing because the higher-scoring trial learns less often, in a sentence.

    Empty for none.
    """
    names = [quoted(name) for name, gap in gaps.items() if gap.opposed]
    if not names:
        return ""
    return (
        f"The difference of {listed(names)} finds nothing, whatever p is: of the two trials the one with the higher "
        "scores learns less often (Fisher's test)."
    )
