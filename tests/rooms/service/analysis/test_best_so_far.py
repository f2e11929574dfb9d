"""A search's lead over random points, against a formula that goes image by image, and against all deals of points."""

import random
from itertools import combinations, product

import pytest

from search_spaces.claim import AtLeast, Faster
from service.analysis.best import PointScores, lead
from service.analysis.statistics import Scale, Scores
from service.analysis.verdicts import Departure, judge

SCALE = Scale(0.5, 0.0, 1.0, 0.001)
CLAIMS = (Faster("best", "random"),)
Tried = list[tuple[float | None, int]]
"""The mean of a point, None where it lacks a seed, and its images, in the order of proposal."""


def points(tried: Tried, asked: int | None = None) -> PointScores:
    values = {number: value for number, (value, _) in enumerate(tried) if value is not None}
    images = {number: spent for number, (_, spent) in enumerate(tried)}
    return PointScores(values, asked or len(tried), SCALE, images=images)


def curve(tried: Tried) -> list[float]:
    """The best score so far after each single image but the last one: a point counts when its images are spent."""
    best, found = 0.5, []
    for value, spent in tried:
        found += [best] * spent
        best = max(best, value or 0.0)
    return found


def mean_lead(who: Tried, than: Tried) -> float:
    pairs = list(zip(curve(who), curve(than), strict=False))
    return sum(one - other for one, other in pairs) / len(pairs)


def drawn(chance: random.Random, count: int) -> Tried:
    return [(chance.choice([None, 0.3, chance.uniform(0.4, 1)]), chance.choice([1, 3, 9])) for _ in range(count)]


def verdicts(who: Tried, than: Tried, claims=CLAIMS, **more):
    named = {"best": points(who), "random": points(than)}
    return judge(claims, lambda claim: named if isinstance(claim, Faster) else {}, **more)


def test_the_lead_is_the_mean_over_images_and_its_p_that_of_all_deals():
    chance = random.Random(0)
    for count in (1, 2, 3, 4, 3, 4):
        who, than = drawn(chance, count), drawn(chance, count)
        found = lead(points(who), points(than))
        assert found.images == min(sum(spent for _, spent in side) for side in (who, than))
        assert found.mean == pytest.approx(mean_lead(who, than))
        leads = []
        for turned in product((0, 1), repeat=count):  # in each pair of points either may be the first one
            order = [pair[turn ^ one] for pair, turn in zip(zip(who, than, strict=True), turned, strict=True)
                     for one in (0, 1)]  # fmt: skip
            for mine in combinations(range(2 * count), count):
                sides = [
                    [point for place, point in enumerate(order) if (place in mine) == own] for own in (True, False)
                ]
                leads.append(mean_lead(*sides))
        for p, side in ((found.p_above, 1), (found.p_below, -1)):
            exact = sum(side * (one - found.mean) > -1e-9 for one in leads) / len(leads)
            assert p == pytest.approx(exact, abs=0.02)
        other = lead(points(than), points(who))
        assert other.mean == pytest.approx(-found.mean)
        assert other.p_above == pytest.approx(found.p_below, abs=0.02)
        assert lead(points(who), points(than)) == found
    longer, shorter = drawn(chance, 7), drawn(chance, 4)
    assert lead(points(longer), points(shorter)).mean == pytest.approx(mean_lead(longer, shorter))


def test_points_that_are_stopped_cost_images_and_have_no_score():
    whole: Tried = [(0.7, 10), (0.9, 10), (0.8, 10)]
    assert mean_lead([(0.7, 10), (None, 10), (0.9, 10)], whole) < 0, "who stops a point waits longer for the next"
    late = lead(points([(None, 10), (0.99, 10), (0.6, 10)]), points(whole))
    assert late.mean == pytest.approx((10 * (0.5 - 0.7) + 10 * (0.99 - 0.9)) / 30)
    nothing = lead(points([(None, 0), (None, 0)]), points([(None, 0), (0.9, 5)]))
    assert (nothing.mean, nothing.images, nothing.p_above) == (0.0, 0, 1.0)


def test_a_verdict_says_who_is_faster_and_how_likely_luck_is():
    good: Tried = [(0.9 + number / 1000, 10) for number in range(12)]
    poor: Tried = [(0.6 + number / 1000, 10) for number in range(12)]
    (ahead,) = verdicts(good, poor)
    (behind,) = verdicts(poor, good)
    assert (ahead.word, behind.word) == ("SUPPORTED", "REFUTED")
    assert (ahead.n, ahead.interval, ahead.confidence, ahead.needed) == (12, None, None, None)
    assert ahead.measured == pytest.approx(mean_lead(good, poor)) == ahead.margin
    assert ahead.why == (
        "The best score so far of the search minus that of the random points is +0.2750, in the mean over the first "
        "120 training images (12 and 12 points, 9,999 permutations); luck alone seldom leads as far (p = 0.0001)."
    )
    assert "luck alone seldom lags as far behind" in behind.why
    mixed = good[:6] + poor[:6]
    (same,) = verdicts(mixed, mixed)
    assert (same.word, same.measured) == ("INCONCLUSIVE", 0.0)
    assert "luck alone may do the same" in same.why
    both = verdicts(good, poor, (Faster("best", "random"), AtLeast("best", 0.9)))
    assert both[0].p == pytest.approx(2 * (ahead.p or 0.0)), "Holm"
    (other,) = verdicts(good, poor, departure=Departure("at smoke", "too small"))
    assert other.why == (
        "Too small. Here 12 of 12 points of the search have all their seeds; 12 of 12 random points have all their "
        "seeds."
    )
    (own,) = verdicts(good, poor, departure=Departure("with own values", "other values", told=True))
    assert "it comes out SUPPORTED" in own.why
    open_: dict[str, Scores] = {"best": points(good, 14), "random": points(poor)}
    waits = judge([Faster("best", "random")], lambda _: open_)[0]
    assert (waits.word, waits.why) == ("INCONCLUSIVE", "The search and its random points lack the end of 2 points.")
    none = judge([Faster("best", "random")], lambda _: {})[0]
    assert (none.word, none.n) == ("INCONCLUSIVE", 0)
    assert none.why == "The best points of the search and of the random ones are not confirmed yet."
