import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from search_spaces.claim import AtChance, AtLeast, Better, Equivalent
from service.analysis.statistics import Scale, Scores, difference, estimate, holm
from service.analysis.verdicts import judge

FLOATS = st.floats(0.05, 0.95).map(lambda value: round(value, 4))
SAMPLES = st.lists(FLOATS, min_size=2, max_size=7)
ACCURACY = Scale(chance=0.5, low=0.0, high=1.0, step=0.001)


def scores(*values: float, asked: int | None = None, scale: Scale = ACCURACY, diverged: tuple[int, ...] = ()) -> Scores:
    return Scores(dict(enumerate(values)), asked or len(values), scale, frozenset(diverged))


@settings(max_examples=40, deadline=None)
@given(SAMPLES)
def test_the_interval_is_scipys(values):
    assume(np.std(values) > 1e-6)
    ours = estimate(values).interval()
    theirs = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert ours == pytest.approx(theirs, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(SAMPLES, st.floats(0.0, 1.0))
def test_the_tests_are_scipys(values, value):
    assume(np.std(values) > 1e-6)
    ours = estimate(values)
    for side, p in (("greater", ours.p_above(value)), ("less", ours.p_below(value)), ("two-sided", ours.p(value))):
        theirs = stats.ttest_1samp(values, value, alternative=side).pvalue
        assert p == pytest.approx(theirs, abs=1e-10)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=2, max_size=7))
def test_the_difference_is_scipys_paired_test(pairs):
    who, than = (scores(*side, scale=Scale()) for side in zip(*pairs, strict=True))
    gaps = [a - b for a, b in pairs]
    assume(np.std(gaps) > 1e-6)
    theirs = stats.ttest_rel([a for a, _ in pairs], [b for _, b in pairs])
    ours = difference(who, than)
    assert ours.p() == pytest.approx(theirs.pvalue, abs=1e-10)
    assert ours.interval() == pytest.approx(theirs.confidence_interval(0.95), abs=1e-10)


def test_three_seeds_by_hand():
    # t(2) at 97.5 % is 4.302653; mean 0.9, std 0.01: half width 4.302653 * 0.01 / sqrt(3)
    found = estimate([0.89, 0.90, 0.91])
    assert (found.mean, found.std) == pytest.approx((0.9, 0.01))
    assert found.interval()[1] - 0.9 == pytest.approx(0.0248414, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(SAMPLES, st.floats(-3, 3), st.floats(0.1, 9))
def test_intervals_move_and_grow_with_the_scores(values, shift, factor):
    assume(np.std(values) > 1e-6)
    low, high = estimate(values).interval()
    moved = estimate([shift + factor * value for value in values]).interval()
    assert moved == pytest.approx((shift + factor * low, shift + factor * high), abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=2, max_size=6), st.randoms())
def test_the_order_of_seeds_does_not_matter(pairs, random):
    order = list(range(len(pairs)))
    random.shuffle(order)
    who = {seed: pairs[seed][0] for seed in order}
    than = {seed: pairs[seed][1] for seed in range(len(pairs))}
    shuffled = difference(Scores(who, len(who)), Scores(than, len(than)))
    straight = difference(Scores(dict(sorted(who.items())), len(who)), Scores(than, len(than)))
    assert shuffled == straight


def test_only_common_seeds_are_paired():
    gap = difference(Scores({0: 0.9, 1: 0.8, 3: 0.1}, 4), Scores({1: 0.5, 0: 0.7, 2: 0.2}, 4))
    assert (gap.n, gap.mean) == (2, pytest.approx(0.25))
    assert difference(Scores({0: 0.9}, 1), Scores({1: 0.5}, 1)) is None


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1), min_size=1))
def test_holm_is_the_published_procedure(ps):
    found = holm(ps)
    assert all(ps[name] <= found[name] <= 1 for name in ps)
    by_p = sorted(ps, key=ps.get)
    assert [found[name] for name in by_p] == sorted(found.values())
    for level in (0.01, 0.05, 0.2):  # step down: reject while p_(i) <= level / (m - i)
        rejected, going = set(), True
        for rank, name in enumerate(by_p):
            going = going and ps[name] * (len(ps) - rank) <= level
            rejected |= {name} if going else set()
        assert {name for name in ps if found[name] <= level} == rejected


def test_holm_by_hand():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})


def test_equal_scores_do_not_claim_more_than_their_images_show():
    low, high = scores(1.0, 1.0, 1.0).interval
    assert high == 1.0
    assert low == pytest.approx(1 - 4.302653 * 0.001 / math.sqrt(12) / math.sqrt(3), abs=1e-8)
    assert scores(1.0, 1.0, 1.0).std == 0
    assert scores(1.0, 1.0, 1.0, scale=Scale()).interval == (1.0, 1.0)


def test_one_seed_has_no_interval_and_none_no_mean():
    assert (scores(0.9).mean, scores(0.9).std, scores(0.9).interval) == (0.9, None, None)
    assert (Scores({}, 3).mean, Scores({}, 3).interval) == (None, None)
    assert estimate([0.9]).p() is None


def word(claim, **named) -> str:
    return judge(claim, named).word


def test_at_least_asks_where_the_whole_interval_lies():
    assert word(AtLeast("best", 0.99), best=scores(1.0, 1.0, 1.0)) == "SUPPORTED"
    assert word(AtLeast("best", 0.99), best=scores(0.995, 0.994, 0.996)) == "SUPPORTED"
    assert word(AtLeast("best", 0.99), best=scores(0.98, 0.995, 0.999)) == "INCONCLUSIVE"
    assert word(AtLeast("best", 0.99), best=scores(0.9, 0.91, 0.92)) == "REFUTED"
    assert word(AtLeast("best", 1.0), best=scores(1.0, 1.0, 1.0)) == "INCONCLUSIVE"


def test_better_is_paired_by_seed():
    low, high = scores(0.5, 0.7, 0.9), scores(0.52, 0.719, 0.921)
    assert word(Better("high", "low"), high=high, low=low) == "SUPPORTED"
    assert word(Better("low", "high"), high=high, low=low) == "REFUTED"
    assert word(Better("high", "low", margin=0.02), high=high, low=low) == "INCONCLUSIVE"
    assert word(Better("high", "low", margin=0.05), high=high, low=low) == "REFUTED"
    assert word(Better("low", "low"), low=low) == "INCONCLUSIVE"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=3, max_size=6), st.floats(0.01, 0.3))
def test_equivalent_is_two_one_sided_tests(pairs, margin):
    gaps = [a - b for a, b in pairs]
    assume(np.std(gaps) > 1e-6)
    lower = stats.ttest_1samp(gaps, -margin, alternative="greater").pvalue
    upper = stats.ttest_1samp(gaps, margin, alternative="less").pvalue
    who, than = (scores(*side, scale=Scale()) for side in zip(*pairs, strict=True))
    verdict = judge(Equivalent("who", "than", margin), {"who": who, "than": than})
    assert (verdict.word == "SUPPORTED") == (max(lower, upper) < 0.05)
    if verdict.word == "REFUTED":
        low, high = estimate(gaps).interval(0.9)
        assert low > margin or high < -margin


def test_chance_is_supported_near_it_and_refuted_far_away():
    assert word(AtChance("none", 0.03), none=scores(0.502, 0.498, 0.503)) == "SUPPORTED"
    assert word(AtChance("none", 0.03), none=scores(0.5, 0.5, 0.5)) == "SUPPORTED"
    assert word(AtChance("none", 0.03), none=scores(0.46, 0.54, 0.5)) == "INCONCLUSIVE"
    assert word(AtChance("none", 0.03), none=scores(0.6, 0.61, 0.62)) == "REFUTED"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (scores(1.0, 1.0, asked=3), "only 2 of 3 seeds of best have an answer"),
        (scores(1.0), "one seed of best shows no spread"),
        (None, "best has no test score yet"),
    ],
)
def test_a_missing_or_single_seed_decides_nothing(found, said):
    named = {} if found is None else {"best": found}
    for claim in (AtLeast("best", 0.1), AtChance("best"), Better("best", "best"), Equivalent("best", "best", 0.5)):
        verdict = judge(claim, named)
        assert verdict.word == "INCONCLUSIVE"
        assert said in verdict.why


def test_a_diverged_seed_counts_at_chance_but_shows_no_likeness():
    fallen = scores(0.5, 0.501, 0.5, diverged=(0,))
    assert word(AtLeast("who", 0.9), who=fallen) == "REFUTED"
    assert word(AtChance("who", 0.03), who=fallen) == "INCONCLUSIVE"
    assert word(Equivalent("who", "than", 0.1), who=fallen, than=scores(0.5, 0.5, 0.5)) == "INCONCLUSIVE"
    assert "1 diverged and counted at chance" in judge(AtLeast("who", 0.9), {"who": fallen}).why


def test_a_verdict_carries_its_numbers():
    verdict = judge(AtLeast("best", 0.99), {"best": scores(0.995, 0.994, 0.996)})
    assert (verdict.n, verdict.measured, verdict.margin) == (3, pytest.approx(0.995), pytest.approx(0.005))
    assert verdict.interval == pytest.approx((0.9925159, 0.9974841), abs=1e-6)
    assert str(verdict).startswith("SUPPORTED: best reaches at least 0.99. best scores 0.995")
