"""Whether a score equals a published number: judged only within a margin that the study states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from search_spaces.study import Published
from service.analysis.claims.region import Region
from service.analysis.statistics import ALPHA, Adjusted, Scores, holm

Likeness = Literal["equal", "differs", "not resolved"]


@dataclass(frozen=True)
class Agreement:
    """A published number beside ours. `p`: of the test that decided, adjusted for all published numbers (Holm)."""

    known: Published
    word: Likeness
    p: float

    @property
    def words(self) -> str:
        """`equal within 0.01`, `differs by more than 0.01`, `not resolved within 0.01`."""
        margin = f"{self.known.within or 0.0:g}"
        return {
            "equal": f"equal within {margin}",
            "differs": f"differs by more than {margin}",
            "not resolved": f"not resolved within {margin}",
        }[self.word]


def agreements(
    published: Sequence[Published],
    scores: Mapping[str, Scores],
    comparable: Callable[[Published], bool],
    alpha: float = ALPHA,
) -> dict[int, Agreement]:
    """The judged ones of a study's published numbers, by their place in it.

    Those with a margin (`Published.within`) that are comparable (`StudyResult.comparable`), and whose trial has all its
    seeds, none of them diverged.
    """
    known = {
        place: one
        for place, one in enumerate(published)
        if one.within is not None and comparable(one) and _sound(scores.get(one.who))
    }
    return judge_published(known, scores, alpha)


def judge_published(
    known: Mapping[int, Published], scores: Mapping[str, Scores], alpha: float = ALPHA
) -> dict[int, Agreement]:
    """Two one-sided tests around each published value, and the tests against them; adjusted for all together.

    Source: Schuirmann 1987 (TOST). Differs: the published value counts as exact, as its own spread is over other
    seeds, or not known.
    """
    inside, outside = {}, {}
    for place, one in known.items():
        found = scores[one.who].estimate
        assert found is not None
        assert one.within is not None
        region = Region(one.value - one.within, one.value + one.within)
        inside[str(place)], outside[str(place)] = region.p_inside(found), region.p_outside(found)
    supports, refutes = holm(inside, alpha), holm(outside, alpha)
    return {place: _decide(one, supports[str(place)], refutes[str(place)]) for place, one in known.items()}


def _decide(known: Published, equal: Adjusted, other: Adjusted) -> Agreement:
    if equal.significant:
        return Agreement(known, "equal", equal.p)
    return Agreement(known, "differs", other.p) if other.significant else Agreement(known, "not resolved", equal.p)


def _sound(scores: Scores | None) -> bool:
    if scores is None or not scores.complete or scores.diverged or scores.estimate is None:
        return False
    return scores.estimate.testable
