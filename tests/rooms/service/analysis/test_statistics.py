import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from service.analysis.comparison import unpaired
from service.analysis.multiple_testing import Adjusted, Difference, compare_best, compare_pairs, holm
from service.analysis.scores import LEAST_GAIN, fails_more, kept, most_that_fail, over_tasks
from service.analysis.statistics import (
    ALPHA,
    Scale,
    Scores,
    contrast,
    difference,
    estimate,
    level_of,
    slope_weights,
)
from tests.rooms.service.analysis.logits import FLOOR, mean_interval, on_logits, paired_p

FLOATS = st.floats(0.05, 0.95).map(lambda value: round(value, 4))
SAMPLES = st.lists(FLOATS, min_size=3, max_size=7)
ACCURACY = Scale(chance=0.5, low=0.0, high=1.0, step=0.001)


def scores(*values: float, asked: int | None = None, scale: Scale = ACCURACY, diverged: tuple[int, ...] = ()) -> Scores:
    return Scores(dict(enumerate(values)), asked or len(values), scale, frozenset(diverged))


@settings(max_examples=40)
@given(SAMPLES)
def test_the_interval_is_scipys(values):
    assume(np.std(values) > 1e-6)
    ours = estimate(values).interval()
    theirs = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert ours == pytest.approx(theirs, abs=1e-12)


@settings(max_examples=40)
@given(SAMPLES, st.floats(0.0, 1.0))
def test_the_tests_are_scipys(values, value):
    assume(np.std(values) > 1e-6)
    ours = estimate(values)
    for side, p in (("greater", ours.p_above(value)), ("less", ours.p_below(value)), ("two-sided", ours.p(value))):
        theirs = stats.ttest_1samp(values, value, alternative=side).pvalue
        assert p == pytest.approx(theirs, abs=1e-10)


@settings(max_examples=40)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=3, max_size=7))
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


@settings(max_examples=30)
@given(SAMPLES, st.floats(-3, 3), st.floats(0.1, 9))
def test_intervals_move_and_grow_with_the_scores(values, shift, factor):
    assume(np.std(values) > 1e-6)
    low, high = estimate(values).interval()
    moved = estimate([shift + factor * value for value in values]).interval()
    assert moved == pytest.approx((shift + factor * low, shift + factor * high), abs=1e-9)


@settings(max_examples=30)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=3, max_size=6), st.randoms())
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
    assert all(ps[name] <= found[name].p <= 1 for name in ps)
    by_p = sorted(ps, key=ps.get)
    assert [found[name].p for name in by_p] == sorted(one.p for one in found.values())
    for level in (0.01, 0.05, 0.2):  # step down: reject while p_(i) <= level / (m - i)
        rejected, going = set(), True
        for rank, name in enumerate(by_p):
            going = going and ps[name] * (len(ps) - rank) <= level
            rejected |= {name} if going else set()
        assert {name for name in ps if found[name].p <= level} == rejected


def test_holm_by_hand():
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03})
    assert {name: one.p for name, one in found.items()} == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert {name: one.level for name, one in found.items()} == pytest.approx({"a": 0.05 / 3, "b": 0.025, "c": 0.025})


def test_equal_scores_do_not_claim_more_than_their_images_show():
    low, high = scores(1.0, 1.0, 1.0).interval
    assert high == 1.0
    assert (low, high) == pytest.approx(mean_interval([1.0, 1.0, 1.0], 0.025), abs=1e-6)
    assert scores(1.0, 1.0, 1.0).std == 0
    assert scores(1.0, 1.0, 1.0, scale=Scale()).interval == (1.0, 1.0)
    more = scores(*[1.0] * 20).estimate
    assert more.error == pytest.approx(FLOOR), "twenty rounded scores say no more than three"


def test_one_seed_has_no_interval_and_none_no_mean():
    assert (scores(0.9).mean, scores(0.9).std, scores(0.9).interval) == (0.9, None, None)
    assert (Scores({}, 3).mean, Scores({}, 3).interval) == (None, None)
    assert estimate([0.9]).p() is None


def test_two_seeds_have_no_interval_and_no_test():
    found = estimate([0.5, 0.98])
    assert (found.interval(), found.p(), found.p_above(0.1), found.p_below(0.1)) == (None, None, None, None)
    assert scores(0.5, 0.98).std == pytest.approx(0.3394, abs=1e-4), "the spread is shown, and decides nothing"


def test_a_difference_is_cut_to_what_is_possible():
    wild = difference(scores(0.6, 0.8, 0.7), scores(0.9, 0.7, 0.8))
    assert wild.interval(0.9999) == (-1.0, 1.0)
    r2 = Scale(0.0, high=1.0)
    open_below = difference(scores(0.3, 0.5, 0.4, scale=r2), scores(0.6, 0.4, 0.5, scale=r2))
    assert open_below.interval(0.9999)[1] > 1, "R² has no lower end, so a difference has no upper one"


@pytest.mark.parametrize(
    ("values", "split"),
    [
        ((0.5, 0.5, 0.98), True),
        ((0.5, 0.51, 0.97, 0.98), True),
        ((0.9, 0.91, 0.95), False),
        ((0.5, 0.7, 0.98), False),
        ((0.5, 0.98), False),
        ((0.99, 0.99, 0.99), False),
    ],
)
def test_seeds_split_in_two_are_seen(values, split):
    assert scores(*values).split is split


@pytest.mark.parametrize(
    ("values", "above"),
    [
        ((0.5, 0.5, 0.5), False),
        ((0.507, 0.507, 0.507), False),  # one answer for all images: every seed alike, a little off chance
        ((0.5, 0.5, 0.98), False),
        ((0.6, 0.6, 0.6), True),
        ((0.75, 0.9, 0.95), True),
        ((0.97, 0.98), True),
        ((0.51, 0.98), False),
    ],
)
def test_above_chance_needs_more_than_luck_on_so_many_images(values, above):
    assert scores(*values).above_chance is above


def test_a_score_that_guessing_just_reaches_is_not_above_chance():
    reached = ACCURACY.chance + ACCURACY.luck
    assert not scores(reached, reached, reached).above_chance, "though its interval leaves out chance"
    assert not scores(reached, 0.98).above_chance, "two seeds have no interval, and one is not above"
    assert not scores(reached).any_above_chance
    assert scores(math.nextafter(reached, 1)).any_above_chance


def test_a_gap_that_is_just_wide_enough_splits_the_seeds():
    eighths = Scale(chance=0.5, low=0.0, high=1.0, step=0.125)
    assert scores(0.5, 0.5, 0.625, scale=eighths).split, "a quarter of the way from chance to a perfect score"
    assert scores(0.5, 0.625, 1.0, scale=eighths).split, "three times as wide as a group"
    assert not scores(0.5, 0.625, 0.9375, scale=eighths).split


def test_a_seed_that_has_just_the_least_gain_has_nothing_to_keep():
    exact = Scale(chance=0.5, low=0.0, high=1.0)
    least = 0.5 + LEAST_GAIN * 0.5
    assert kept(scores(0.6, 0.6, scale=exact), scores(least, 0.7, scale=exact)).values == {1: pytest.approx(0.5)}


def test_a_p_of_just_the_level_is_not_significant():
    gap = scores(0.8, 0.9), scores(0.7, 0.7), estimate([0.1, 0.2, 0.3])
    assert not Difference(*gap, Adjusted(ALPHA, ALPHA)).significant
    assert Difference(*gap, Adjusted(math.nextafter(ALPHA, 0), ALPHA)).significant
    levels = {name: one.level for name, one in holm({"a": ALPHA / 2, "b": ALPHA}).items()}
    assert levels == {"a": ALPHA / 2, "b": ALPHA / 2}, "the first is not rejected, so the second is held to its level"


@settings(max_examples=60)
@given(st.lists(FLOATS, min_size=3, max_size=6), st.integers(1, 6), st.randoms())
def test_an_interval_and_its_adjusted_p_never_contradict(values, others, random):
    assume(np.std(values) > 1e-6)
    gap = estimate([value - 0.5 for value in values])
    adjusted = holm({"this": gap.p(), **{str(n): random.random() for n in range(others)}})["this"]
    low, high = gap.interval(1 - adjusted.level)
    assert (low > 0 or high < 0) == (adjusted.p < ALPHA)


LARGE = st.integers(700, 1000)
ACCURACIES = st.lists(st.integers(520, 1000).map(lambda right: right / 1000), min_size=3, max_size=7)


@settings(max_examples=40)
@given(ACCURACIES, st.floats(0.001, 0.2))
def test_an_accuracy_is_judged_as_it_stands_and_on_logits(values, level):
    found = scores(*values)
    assume(found.uniform and len(found.learnt) == len(values))
    assert found.estimate.interval(1 - 2 * level) == pytest.approx(mean_interval(values, level), abs=1e-9)
    low, _ = found.estimate.interval(1 - 2 * level)
    assume(low > 0)
    assert found.estimate.p_above(low) == pytest.approx(level, abs=1e-9), "the interval ends where its test does"


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(700, 1000), st.integers(700, 1000)), min_size=3, max_size=7), st.floats(-0.2, 0.2)
)
def test_a_difference_of_accuracies_needs_both_tests(pairs, line):
    who, than = ([right / 1000 for right in side] for side in zip(*pairs, strict=True))
    assume(scores(*who).uniform and scores(*than).uniform)
    gap = difference(scores(*who), scores(*than))
    assert gap.p_above(line) == pytest.approx(paired_p(who, than, line), abs=1e-9)
    assert gap.p_below(line) == pytest.approx(paired_p(who, than, line, "less"), abs=1e-9)


def test_unpaired_accuracies_have_a_twin_on_logits():
    gap = unpaired(scores(0.99, 0.995, 0.999), scores(0.9, 0.93, 0.95, 0.91))
    assert gap.twin is not None
    assert gap.p_above(0) == max(gap.twin.p_above(0), stats.t.sf(gap.mean / gap.error, gap.df))


def test_folds_have_the_corrected_error_of_nadeau_and_bengio_everywhere():
    """Means, pairs, slopes and pairs of studies; on logits, too. Ten folds of five: a fold is a quarter of the rest."""
    folds = replace(ACCURACY, overlap=0.25)
    random = np.random.default_rng(0)
    a, b, c = (np.round(random.normal(center, 0.02, 10), 3) for center in (0.8, 0.83, 0.9))
    one, other, last = (Scores(dict(enumerate(map(float, values))), 10, folds) for values in (a, b, c))
    wider = (1 / 10 + 0.25) ** 0.5

    def p_of(gaps):
        return stats.t.sf(gaps.mean() / (gaps.std(ddof=1) * wider), 9)

    gap = difference(one, other)
    assert gap.error == pytest.approx((a - b).std(ddof=1) * wider)
    assert gap.spread == pytest.approx((a - b).std(ddof=1))
    assert gap.p_below(0) == pytest.approx(max(p_of(b - a), p_of(on_logits(b) - on_logits(a))))
    half = stats.t.ppf(0.975, 9) * a.std(ddof=1) * wider
    low, high = one.interval
    assert low <= a.mean() - half <= low + 0.01, "the interval of the logits is about as wide"
    assert high - 0.01 <= a.mean() + half <= high
    slope = contrast([one, other, last], slope_weights(3))
    assert slope.error == pytest.approx(((c - a) / 2).std(ddof=1) * wider)
    apart = unpaired(one, other)
    assert apart.error == pytest.approx(np.hypot(a.std(ddof=1), b.std(ddof=1)) * wider)
    assert apart.twin.error == pytest.approx(np.hypot(on_logits(a).std(ddof=1), on_logits(b).std(ddof=1)) * wider)
    assert kept(one, other).scale.overlap == over_tasks({"x": one, "y": other}, {}).scale.overlap == 0.25


def test_a_seed_learns_above_chance_and_not_in_the_lower_of_two_groups():
    for values, learnt in (
        ((0.99, 0.98, 0.97), {0, 1, 2}),
        ((0.5, 0.98, 0.99), {1, 2}),
        ((0.999, 0.633, 0.976), {0, 2}),  # above chance, and in the lower of two groups
        ((0.5, 0.51, 0.5), set()),
        ((0.5, 0.98), {1}),
    ):
        found = scores(*values)
        assert found.learnt == learnt, values
        assert {*found.sound.values} == (learnt if found.split else {*found.values})
        assert found.mean == pytest.approx(np.mean(values)), "the mean is that of all seeds"


def test_seeds_about_the_threshold_are_one_group():
    """If only those above it were compared, the luckiest seed of one arm would stand for all of it."""
    scale = Scale(0.5, 0.0, 1.0, 1 / 100)
    some, none = scores(0.62, 0.61, 0.69, 0.6, scale=scale), scores(0.6, 0.63, 0.61, 0.62, scale=scale)
    assert (some.learnt, none.learnt) == ({2}, set())
    assert some.uniform
    assert some.sound is some
    gap = difference(some, none)
    assert (gap.n, gap.mean) == (4, pytest.approx(0.015))


def test_guessing_seldom_seems_to_learn():
    line = 0.5 + stats.norm.ppf(0.999) * (0.25 / 1000) ** 0.5
    assert ACCURACY.learns == pytest.approx(line)
    assert scores(0.5, line + 1e-6, 0.5).learnt == {1}
    assert scores(0.5, line - 1e-6, 0.5).learnt == set()


def test_what_is_compared_are_the_seeds_that_learn_in_both():
    who, than = scores(0.99, 0.5, 0.98, 0.97, 0.99), scores(0.9, 0.91, 0.5, 0.93, 0.92)
    gap = difference(who, than)
    assert (gap.n, gap.mean) == (3, pytest.approx(np.mean([0.09, 0.04, 0.07])))
    values = scores(0.1, 0.2, -0.3, scale=Scale())
    assert values.learnt == {0, 1, 2}, "values of probes learn nothing"


def test_so_many_seeds_may_fail():
    """The ends of Clopper and Pearson's interval are quantiles of a beta distribution."""
    for failed, seeds in ((0, 3), (0, 5), (0, 10), (1, 3), (2, 10), (3, 3)):
        exact = stats.beta.ppf(0.95, failed + 1, seeds - failed) if failed < seeds else 1.0
        assert most_that_fail(failed, seeds) == pytest.approx(exact, abs=1e-9)
    assert most_that_fail(0, 3) == pytest.approx(1 - 0.05 ** (1 / 3))


def test_failing_more_often_is_fishers_test():
    who, than = scores(0.5, 0.5, 0.99, 0.5, 0.98), scores(0.9, 0.91, 0.92, 0.9, 0.5)
    exact = stats.fisher_exact([[3, 2], [1, 4]], alternative="greater").pvalue
    assert fails_more(who, than) == pytest.approx(exact)
    assert fails_more(than, who) == pytest.approx(stats.fisher_exact([[1, 4], [3, 2]], alternative="greater").pvalue)

    some = scores(*[0.98, 0.985, 0.99, 0.98, 0.985], *[0.5] * 7)
    all_of_them = scores(*[0.95, 0.955, 0.96, 0.95, 0.955, 0.96, 0.95, 0.955, 0.96, 0.95, 0.955, 0.96])
    gap = compare_pairs({"a": (some, all_of_them)})["a"]
    assert gap.p < 0.001
    assert (gap.mean > 0, gap.opposed, gap.significant) == (True, True, False)
    turned = compare_pairs({"a": (all_of_them, some)})["a"]
    assert (turned.mean < 0, turned.opposed, turned.significant) == (True, True, False)
    whole = compare_pairs({"a": (all_of_them, scores(*[0.9, 0.91, 0.905] * 4))})["a"]
    assert (whole.opposed, whole.significant) == (False, True)


def test_further_test_images_widen_an_interval_by_the_variance_that_they_bring():
    rng = np.random.default_rng(3)
    scores = (
        0.8 + 0.01 * rng.standard_normal((4, 1)) + 0.02 * rng.standard_normal(5) + 0.002 * rng.standard_normal((4, 5))
    )
    plain = Scale(0.5, 0.0, 1.0)

    def on_draws(rows, draws=5):
        further = {seed: (*map(float, row[1:draws]),) for seed, row in enumerate(rows) if draws > 1}
        return Scores(dict(enumerate(map(float, rows[:, 0]))), len(rows), plain, further=further)

    found, alone = on_draws(scores).estimate, on_draws(scores, 1).estimate
    rest = scores - scores.mean(0) - scores.mean(1, keepdims=True) + scores.mean()
    spread, noise = scores.mean(0).var(ddof=1), (rest**2).sum() / (3 * 4)
    assert (found.mean, found.draws, alone.draws) == (alone.mean, 5, 1)
    assert found.error**2 == pytest.approx(alone.error**2 + spread - noise / 4)
    assert found.freedom == math.floor(found.error**4 / (alone.error**4 / 3 + spread**2 / 4))
    assert found.interval()[0] < alone.interval()[0]

    other = scores + 0.01 * rng.standard_normal(5) + 0.002 * rng.standard_normal((4, 5))
    gap = difference(on_draws(scores), on_draws(other))
    both = replace(on_draws(scores - other), scale=Scale(0.0)).whole  # the same numbers as differences
    assert (gap.error, gap.freedom) == (pytest.approx(both.error), both.freedom)
    assert gap.error > difference(on_draws(scores, 1), on_draws(other, 1)).error

    lacking = on_draws(scores)
    assert replace(lacking, further=dict([*lacking.further.items()][1:])).estimate == alone
    assert replace(lacking, scale=Scale(0.5, 0.0, 1.0, 0.001)).estimate.twin.draws == 5


def test_the_images_of_logits_are_those_of_logits():
    """Near a perfect score a step of one image is a large step of a logit: what draws bring is measured there, too."""
    right = np.array([[1000, 999, 1000, 998, 1000], [999, 1000, 997, 999, 1000], [1000, 998, 999, 1000, 999]])
    right = np.concatenate([right, right[:, ::-1]])

    def twin(draws):
        further = {seed: (*map(float, row[1:draws] / 1000),) for seed, row in enumerate(right) if draws > 1}
        scale = Scale(0.5, 0.0, 1.0, 0.001)
        return Scores(dict(enumerate(map(float, right[:, 0] / 1000))), len(right), scale, further=further).estimate

    on = np.log((right + 0.5) / (1000 - right + 0.5))
    rest = on - on.mean(0) - on.mean(1, keepdims=True) + on.mean()
    images = max(0.0, on.mean(0).var(ddof=1) - (rest**2).sum() / (5 * 4) / 6)
    assert images > 0
    assert twin(5).twin.error ** 2 == pytest.approx(twin(1).twin.error ** 2 + images)
    assert twin(5).interval()[0] > 0.99


def test_unpaired_means_hold_for_other_images_too():
    """Of the images only what moves the difference counts: the variance of its five draws, less what seeds bring."""
    rng = np.random.default_rng(4)
    plain, counted = Scale(0.5, 0.0, 1.0), Scale(0.5, 0.0, 1.0, 0.001)
    images = 0.02 * rng.standard_normal(5)  # of both trials the same ones

    def trial(seeds, own):
        noise = 0.002 * rng.standard_normal((seeds, 5))
        return 0.8 + 0.01 * rng.standard_normal((seeds, 1)) + images + own * rng.standard_normal(5) + noise

    def on_draws(rows, draws, scale):
        further = {seed: (*map(float, row[1:draws]),) for seed, row in enumerate(rows)}
        return Scores(dict(enumerate(map(float, rows[:, 0]))), len(rows), scale, further=further)

    def residual(rows):
        rest = rows - rows.mean(0) - rows.mean(1, keepdims=True) + rows.mean()
        return (rest**2).sum() / 4 / (len(rows) - 1) / len(rows)

    for who, than in ((trial(3, 0.0), trial(6, 0.0)), (trial(3, 0.004), trial(6, 0.03))):
        found, alone, half = (
            unpaired(on_draws(who, one, plain), on_draws(than, other, plain)) for one, other in ((5, 5), (1, 1), (5, 1))
        )
        assert (found.mean, found.n, found.draws) == (alone.mean, 3, 5)
        assert half == alone, "the draws of one trial say nothing of the difference"
        spread = (who.mean(0) - than.mean(0)).var(ddof=1)
        more = max(0.0, spread - residual(who) - residual(than))
        assert found.error**2 == pytest.approx(alone.error**2 + more)
        parts = alone.error**4 / alone.freedom + (spread**2 / 4 if more else 0)
        assert found.freedom == math.floor(found.error**4 / parts)
        twin, narrow = (unpaired(*(on_draws(rows, draws, counted) for rows in (who, than))).twin for draws in (5, 1))
        assert (twin.draws, twin.error**2) == (5, pytest.approx(narrow.error**2 + more))
    assert found.interval()[0] < alone.interval()[0] < alone.interval()[1] < found.interval()[1]


def test_looks_spend_one_level():
    levels = [level_of(look) for look in range(1, 60)]
    assert levels[:3] == pytest.approx([0.045, 0.0025, 0.00125])
    assert sum(levels) == pytest.approx(ALPHA)
    assert holm({"a": 0.0026}, level_of(2))["a"].significant is False
    assert holm({"a": 0.0026, "b": 0.02}, level_of(1))["a"].significant


def test_the_best_is_told_apart_among_all_pairs():
    trials = {
        name: scores(*(0.8 + 0.01 * np.sin([place, 2 * place, 5 * place, place + 3.0]).round(1)))
        for place, name in enumerate("abcd")
    }
    ps = {}
    for one in "abcd":
        for other in "abcd":
            if one < other:
                ps[one + other] = difference(trials[one], trials[other]).p()
    adjusted = holm(ps)
    found = compare_best("b", trials)
    assert {*found} == {"a", "c", "d"}
    for other, gap in found.items():
        assert gap.p == pytest.approx(adjusted["".join(sorted("b" + other))].p)
        assert gap.mean == pytest.approx(trials["b"].mean - trials[other].mean)
