"""Means, differences and their tests, against scipy and formulas that are written out."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from search_spaces.claim import Better
from service.analysis.comparison import unpaired
from service.analysis.multiple_testing import (
    Adjusted,
    Difference,
    compare_best,
    contrast,
    difference,
    holm,
    slope_weights,
    staying,
    subtracted,
    together,
)
from service.analysis.scores import LEAST_GAIN, group_words, kept, most_that_fail, unseen_words
from service.analysis.statistics import ALPHA, Scale, Scores, estimate, share_of
from tests.rooms.by_hand import judge
from tests.rooms.service.analysis.logits import FLOOR, mean_interval, on_logits, paired_p, second

FLOATS = st.floats(0.05, 0.95).map(lambda value: round(value, 4))
ACCURACY = Scale(chance=0.5, low=0.0, high=1.0, step=0.001)
R2 = Scale(chance=0.0, high=1.0)
COUNTS = st.integers(520, 1000).map(lambda right: right / 1000)
PAIRS = st.lists(st.tuples(COUNTS, COUNTS), min_size=3, max_size=7)
NEAR, HIGH = (st.integers(*ends).map(lambda right: right / 1000) for ends in ((480, 550), (970, 1000)))
SEED = st.integers(0, 2**32 - 1)


def scores(*values: float, asked: int | None = None, scale: Scale = ACCURACY, diverged: tuple[int, ...] = ()) -> Scores:
    return Scores(dict(enumerate(values)), asked or len(values), scale, frozenset(diverged))


def drawn(rows, scale: Scale = ACCURACY, draws: int | None = None) -> Scores:
    """Scores of seeds (rows) on draws of images (columns), the first of which is the study's own."""
    further = {seed: (*map(float, row[1:draws]),) for seed, row in enumerate(rows)}
    return replace(scores(*map(float, rows[:, 0]), scale=scale), further=further)


def answered(right, scale: Scale | None = None) -> Scores:
    """Scores of seeds (rows) whose single images (columns) are known to be right (1) or wrong (0)."""
    own = scale or Scale(0.5, 0.0, 1.0, 1 / right.shape[1])
    return replace(scores(*map(float, right.mean(1)), scale=own), right=dict(enumerate(right.astype(float))))


@settings(max_examples=60)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=3, max_size=7), st.floats(-1.0, 1.0))
def test_without_a_second_scale_the_tests_and_the_intervals_are_scipys(pairs, line):
    gaps = [a - b for a, b in pairs]
    assume(np.std(gaps) > 1e-6)
    ours = difference(*(scores(*side, scale=Scale()) for side in zip(*pairs, strict=True)))
    theirs = stats.ttest_rel(*zip(*pairs, strict=True))
    assert ours.interval() == pytest.approx(theirs.confidence_interval(0.95), abs=1e-10)
    for side, p in (("greater", ours.p_above(line)), ("less", ours.p_below(line)), ("two-sided", ours.p(line))):
        assert p == pytest.approx(stats.ttest_1samp(gaps, line, alternative=side).pvalue, abs=1e-10)


@settings(max_examples=60)
@given(PAIRS, st.floats(-0.2, 0.2), st.floats(0.001, 0.2), st.booleans(), st.integers(1, 6))
def test_scores_with_an_upper_end_are_judged_as_they_stand_and_on_their_second_scale(pairs, line, level, r2, best_of):
    scale, images = (R2, 0) if r2 else (ACCURACY, 1000)
    who, than = (list(side) for side in zip(*pairs, strict=True))
    assume(min(np.std(who), np.std(than), np.std(np.subtract(who, than))) > 1e-6 or not r2)
    one, other = scores(*who, scale=scale), scores(*than, scale=scale)
    assert one.estimate.interval(1 - 2 * level) == pytest.approx(mean_interval(who, level, images), abs=1e-9)
    low, high = mean_interval(who, 0.025 / best_of, images)
    cut = max(low, scale.chance), high
    assert replace(one, best_of=best_of).interval == pytest.approx(cut, abs=1e-9), "the best of k is one of k intervals"
    gap = difference(one, other)
    assert gap.p_above(line) == pytest.approx(paired_p(who, than, line, images=images), abs=1e-9)
    assert gap.p_below(line) == pytest.approx(paired_p(who, than, line, "less", images), abs=1e-9)


@st.composite
def estimates(draw):
    """Means and differences of all kinds."""
    rng, n = np.random.default_rng(draw(SEED)), draw(st.integers(3, 6))
    scale = draw(st.sampled_from([Scale(), R2, ACCURACY, replace(ACCURACY, overlap=0.25)]))
    center, kind = draw(st.floats(0.55, 1.0)), draw(st.sampled_from(["seeds", "draws", "images"]))

    def trial() -> Scores:
        if kind == "images":
            easy = rng.uniform(center - 0.3, center + 0.3, 80).clip(0, 1)
            return answered(rng.binomial(1, easy, (n, 80)), scale)
        rows = rng.normal(center, 0.02, (n, 5)) + rng.normal(0, 0.01, 5)
        return drawn(rows.clip(0, 1).round(3), scale, 1 if kind == "seeds" else None)

    return trial().estimate if draw(st.booleans()) else difference(trial(), trial())


@settings(max_examples=200)
@given(estimates(), st.floats(0.001, 0.3), st.floats(-1.2, 1.2))
def test_an_interval_leaves_out_a_value_exactly_where_the_p_of_that_level_says_so(found, level, value):
    low, high = found.interval(1 - level)
    ends = [end + side * 1e-6 for end in (low, high) for side in (-1, 1)]
    far = [value] if min(abs(value - low), abs(value - high)) > 1e-6 else []  # at an end itself rounding decides
    for line in (*far, found.mean, *ends):
        assert (not low <= line <= high) == (found.p(line) < level), line


def test_only_common_seeds_are_paired_in_any_order():
    who, than = Scores({3: 0.1, 1: 0.8, 0: 0.9}, 4), Scores({1: 0.5, 0: 0.7, 2: 0.2}, 4)
    gap = difference(who, than)
    assert (gap.n, gap.mean) == (2, pytest.approx(0.25))
    assert gap == difference(Scores(dict(sorted(who.values.items())), 4), than)
    assert difference(Scores({0: 0.9}, 1), Scores({1: 0.5}, 1)) is None


def test_equal_scores_do_not_claim_more_than_their_images_show():
    assert scores(1.0, 1.0, 1.0).interval == pytest.approx(mean_interval([1.0, 1.0, 1.0], 0.025), abs=1e-6)
    assert scores(1.0, 1.0, 1.0, scale=Scale()).interval == (1.0, 1.0)
    assert scores(*[1.0] * 20).estimate.error == pytest.approx(FLOOR), "twenty rounded scores say no more than three"
    alike = answered(np.ones((3, 80))).estimate
    assert alike.error**2 == pytest.approx((1 / 80) ** 2 * (1 / 12 + 1 / 2)), "half of what one image would add"


def test_one_seed_has_no_interval_two_have_no_test_and_none_no_mean():
    assert (scores(0.9).mean, scores(0.9).std, scores(0.9).interval) == (0.9, None, None)
    assert (Scores({}, 3).mean, Scores({}, 3).interval, Scores({}, 3).estimate) == (None, None, None)
    two = estimate([0.5, 0.98])
    assert (two.interval(), two.p(), two.p_above(0.1), two.p_below(0.1)) == (None, None, None, None)
    assert scores(0.5, 0.98).std == pytest.approx(0.48 / 2**0.5), "the spread is shown, and decides nothing"


def test_a_difference_is_cut_to_what_is_possible():
    assert difference(scores(0.6, 0.8, 0.7), scores(0.9, 0.7, 0.8)).interval(0.9999) == (-1.0, 1.0)
    open_below = difference(scores(0.3, 0.5, 0.4, scale=R2), scores(0.6, 0.4, 0.5, scale=R2))
    assert open_below.interval(0.9999)[1] > 1, "R² has no lower end, so a difference has no upper one"
    trials = [scores(*[value] * 3) for value in (0.5, 0.6, 0.7)]
    slope = contrast(trials, slope_weights(3))
    assert (slope.mean, slope.low, slope.high) == (pytest.approx(0.1), -0.5, 0.5)
    assert slope.error == pytest.approx(np.hypot(0.5, 0.5) * FLOOR)
    assert difference(*trials[:2]) == contrast(trials[:2], (1.0, -1.0))


@settings(max_examples=80)
@given(st.lists(st.one_of(COUNTS, NEAR, HIGH), min_size=1, max_size=7), st.booleans())
def test_a_seed_failed_that_diverged_or_is_at_chance_and_far_below_all_others(values, fell):
    found = scores(*values, diverged=(0,) if fell else ())
    mean, guess = (
        np.mean(values),
        0.5 + stats.norm.ppf([0.95, 0.999]) * (0.25 / 1000 / np.array([1, len(values)])) ** 0.5,
    )
    order, failed = sorted(values), set()
    if len(order) > 2 and mean > guess[1]:
        gaps = np.diff(order)
        place = int(gaps.argmax())
        widths = order[place] - order[0], order[-1] - order[place + 1]
        if gaps[place] >= 0.25 * 0.5 and gaps[place] >= 3 * max(widths):
            low = {seed for seed, value in enumerate(values) if value <= order[place]}
            failed = low if np.mean([values[seed] for seed in low]) <= guess[0] else failed
    assert found.failed == failed | ({0} if fell else set()), "in one group none failed"
    assert {*found.trained.values} == {*range(len(values))} - found.failed
    assert (found.mean, found.trained.asked) == (pytest.approx(mean), len(found.trained.values))


EIGHTHS = replace(ACCURACY, step=0.125)


@pytest.mark.parametrize(
    ("values", "scale", "lower", "failed"),
    [
        ((0.5, 0.5, 0.98), ACCURACY, {0, 1}, {0, 1}),
        ((0.999, 0.633, 0.976), ACCURACY, {1}, set()),  # above chance, and in the lower of two groups
        ((0.5, 0.7, 0.98), ACCURACY, set(), set()),
        ((0.5, 0.98), ACCURACY, set(), set()),
        ((0.5, 0.51, 0.495), ACCURACY, set(), set()),
        ((0.5, 0.5, 0.625), EIGHTHS, {0, 1}, set()),  # just a quarter of the way from chance to a perfect score
        ((0.5, 0.625, 1.0), EIGHTHS, {0, 1}, set()),  # just three times as wide as a group
        ((0.5, 0.625, 0.9375), EIGHTHS, set(), set()),
        ((0.5, 0.5, 0.98), replace(ACCURACY, task=False), {0, 1}, set()),  # a probe's values have no task to fail at
    ],
)
def test_the_lower_of_two_groups(values, scale, lower, failed):
    found = scores(*values, scale=scale)
    assert (found.lower, found.failed, bool(group_words(found))) == (lower, failed, bool(lower))


def test_guessing_is_above_guessing_once_in_a_thousand_times():
    for seeds in (1, 3, 10):
        line = ACCURACY.guessing(seeds)
        assert line == pytest.approx(0.5 + stats.norm.ppf(0.999) * (0.25 / 1000 / seeds) ** 0.5)
        assert stats.binom.sf(np.floor(line * 1000 * seeds), 1000 * seeds, 0.5) == pytest.approx(0.001, rel=0.2)
    skill = Scale(0.0, -1 / 3, 1.0, 4 / 3 / 60)
    assert skill.guessing() == pytest.approx(4 / 3 * (Scale(0.25, 0.0, 1.0, 1 / 60).guessing() - 0.25))
    reached = ACCURACY.guessing(3)
    assert not scores(reached, reached, reached).above_chance
    assert scores(*[math.nextafter(reached + 1e-9, 1)] * 3).above_chance


@pytest.mark.parametrize(
    ("values", "above"), [((0.2, 0.4, 0.3), True), ((-0.1, 0.5, 0.2), False), ((0.1, 0.9), True), ((-0.1, 0.9), False)]
)
def test_an_r2_is_above_chance_if_its_interval_or_each_seed_is(values, above):
    assert scores(*values, scale=R2).above_chance is above


def test_a_far_r2_has_a_wide_interval_without_overflow_and_that_of_the_best_of_many_changes_no_failed_seed():
    low, high = scores(-1e6, 0.99, 0.995, scale=R2).estimate.interval(1 - 1e-5)
    assert (low < -1e6, high) == (True, 1.0)
    alone = scores(-0.02, 0.9, 0.91, 0.92, 0.9, scale=R2)
    assert replace(alone, best_of=18).failed == alone.failed


def test_a_seed_that_has_just_the_least_gain_has_nothing_to_keep():
    exact = Scale(chance=0.5, low=0.0, high=1.0)
    before = scores(0.5 + LEAST_GAIN * 0.5, 0.7, scale=exact)
    assert kept(scores(0.6, 0.6, scale=exact), before).values == {1: pytest.approx(0.5)}


def test_so_many_seeds_may_fail():
    """The ends of Clopper and Pearson's interval are quantiles of a beta distribution."""
    for failed, seeds in ((0, 3), (0, 5), (0, 10), (1, 3), (2, 10), (3, 3)):
        exact = stats.beta.ppf(0.95, failed + 1, seeds - failed) if failed < seeds else 1.0
        assert most_that_fail(failed, seeds) == pytest.approx(exact, abs=1e-9)
    some = scores(0.5, 0.98, 0.99, 0.985)
    assert unseen_words(some) == f"of 4 seeds 1 failed; up to {100 * stats.beta.ppf(0.95, 2, 3):.0f} % may"
    assert unseen_words(some, refuted=True) == "4 seeds seen; up to 53 % of all may do better"


def two_way(*sides):
    """The variance that another draw brings to a sum of means: of its draws, less what seeds alone bring."""

    def noise(rows):
        rest = rows - rows.mean(0) - rows.mean(1, keepdims=True) + rows.mean()
        return (rest**2).sum() / ((len(rows) - 1) * (rows.shape[1] - 1)) / len(rows)

    return max(0.0, sum(side.mean(0) for side in sides).var(ddof=1) - sum(map(noise, sides)))


def freedom(seeds, df, images, draws):
    """Satterthwaite's, rounded down."""
    return math.floor((seeds + images) ** 2 / (seeds**2 / df + images**2 / (draws - 1)) + 1e-9)


@pytest.mark.parametrize(("center", "spread"), [(0.8, 0.02), (0.98, 0.01)])
def test_further_draws_of_images_add_their_variance(center, spread):
    rng = np.random.default_rng(3)

    def rows(seeds):
        one, images = rng.normal(0, 0.01, (seeds, 1)), rng.normal(0, spread, 5)
        return (center + one + images + rng.normal(0, 0.002, (seeds, 5))).clip(0.5, 1).round(3)

    one, other, more = rows(4), rows(4), rows(7)
    apart = unpaired(drawn(one), drawn(more))
    for found, narrow, sides in (
        (drawn(one).estimate, drawn(one, draws=1).estimate, [one]),
        (difference(drawn(one), drawn(other)), difference(drawn(one, draws=1), drawn(other, draws=1)), [one - other]),
        (apart, unpaired(drawn(one, draws=1), drawn(more, draws=1)), [one, -more]),
    ):
        images = two_way(*sides)
        assert (found.mean, found.draws, narrow.draws, images > 0) == (narrow.mean, 5, 1, True)
        assert found.error**2 == pytest.approx(narrow.error**2 + images)
        assert found.freedom == freedom(narrow.error**2, narrow.freedom, images, 5)
        ends, inner = found.interval(), narrow.interval()
        assert ends[0] <= inner[0] < inner[1] <= ends[1]
    places = np.array([second(column)[0] for column in one.T]).T
    twin, alone = drawn(one).estimate.twin, drawn(one, draws=1).estimate.twin
    assert twin.error**2 == pytest.approx(alone.error**2 + two_way(places)), "on logits, of logits"
    lacking = drawn(one)
    assert replace(lacking, further={1: lacking.further[1]}).estimate == drawn(one, draws=1).estimate
    assert unpaired(drawn(one), drawn(more, draws=1)).error < apart.error, "the draws of one side say nothing"


@pytest.mark.parametrize("seeds", [2, 3, 6])
def test_other_images_of_a_persons_own_add_their_variance(seeds):
    rng = np.random.default_rng(seeds)
    one, other = (rng.binomial(1, rng.uniform(0.5, 1, 80), (seeds, 80)) for _ in range(2))
    for found, right, steps in (
        (answered(one).estimate, one, 1),
        (difference(answered(one), answered(other)), one - other, 2),
        (difference(answered(one), answered(one), least=2.0), one - one, 2),  # at least two images in each trial
    ):
        alone = max(right.mean(1).std(ddof=1) / seeds**0.5, steps**0.5 / 80 / 12**0.5)
        images = max(two_way(right) / 80, (0.5 if right.any() else 2.0) * steps / 80**2)
        assert (found.draws, found.error**2) == (80, pytest.approx(alone**2 + images))
        assert found.freedom == freedom(alone**2, seeds - 1, images, 80)
        assert found.seeds == (pytest.approx(alone), seeds - 1)
        if seeds > 2:
            halves = [stats.t.ppf(0.975, found.freedom) * found.error, stats.t.ppf(0.975, seeds - 1) * alone]
            low, _ = replace(found, twin=None).interval()
            assert (found.mean - low) == pytest.approx(max(halves)), "seeds alone must find it, too"
            ps = [stats.t.sf(found.mean / alone, seeds - 1), stats.t.sf(found.mean / found.error, found.freedom)]
            assert replace(found, twin=None).p_above(0) == pytest.approx(max(ps))
    places, _, slope = second(one.mean(1), 80)
    alone = max(places.std(ddof=1) / seeds**0.5, 1 / 80 / 12**0.5 / slope)
    images = max(two_way(one) / 80, 1 / 80**2 / 2) / slope**2
    assert answered(one).estimate.twin.error ** 2 == pytest.approx(alone**2 + images), "on logits, by their slope"
    assert difference(answered(one), answered(one[:, :40])).draws == 1, "of other images: over seeds alone"


def test_folds_have_the_corrected_error_of_nadeau_and_bengio_everywhere():
    """Means, pairs, slopes and pairs of studies; on logits, too. Ten folds of five: a fold is a quarter of the rest."""
    folds = replace(ACCURACY, overlap=0.25)
    random = np.random.default_rng(0)
    a, b, c = (np.round(random.normal(center, 0.02, 10), 3) for center in (0.8, 0.83, 0.9))
    one, other, last = (scores(*map(float, values), scale=folds) for values in (a, b, c))
    wider = (1 / 10 + 0.25) ** 0.5
    gap, slope, apart = difference(one, other), contrast([one, other, last], slope_weights(3)), unpaired(one, other)
    assert gap.spread == pytest.approx((a - b).std(ddof=1))
    for found, values in ((one.estimate, a), (gap, a - b), (slope, (c - a) / 2)):
        assert found.error == pytest.approx(values.std(ddof=1) * wider)
    assert gap.twin.error == pytest.approx((on_logits(a) - on_logits(b)).std(ddof=1) * wider)
    for found, (left, right) in ((apart, (a, b)), (apart.twin, map(on_logits, (a, b)))):
        assert found.error == pytest.approx(np.hypot(left.std(ddof=1), right.std(ddof=1)) * wider)
    assert apart.p_above(0) == max(apart.twin.p_above(0), stats.t.sf(apart.mean / apart.error, apart.df))
    assert kept(one, other).scale.overlap == 0.25


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1), min_size=1), st.integers(1, 4))
def test_holm_is_the_published_procedure_with_the_share_of_each_look(ps, look):
    found, first = holm(ps, look), holm(ps)
    by_p = sorted(ps, key=ps.get)
    assert [found[name].p for name in by_p] == sorted(one.p for one in found.values())
    for level in (0.01, 0.05, 0.2):  # step down: reject while p_(i) <= level / (m - i)
        rejected, going = set(), True
        for rank, name in enumerate(by_p):
            going = going and ps[name] * (len(ps) - rank) <= level * 0.75 * 0.25 ** (look - 1)
            rejected |= {name} if going else set()
        assert {name for name in ps if found[name].p <= level} == rejected
    for name in ps:
        assert found[name].p == pytest.approx(min(1.0, first[name].p * share_of(1) / share_of(look)))
        assert (ps[name] < found[name].level) == found[name].significant


def test_looks_share_one_level_of_which_a_p_of_just_so_much_finds_nothing():
    assert [share_of(look) for look in (1, 2, 3)] == [3 / 4, 3 / 16, 3 / 64]
    assert sum(share_of(look) for look in range(1, 60)) == pytest.approx(1)
    levels = [one.level for one in holm({"a": 0.01, "b": 0.02, "c": 0.03}).values()]
    assert levels == pytest.approx([0.0125, 0.01875, 0.01875]), "the second is not rejected, so its level is the last"
    gap = scores(0.8, 0.9), scores(0.7, 0.7), estimate([0.1, 0.2, 0.3])
    assert not Difference(*gap, Adjusted(ALPHA, ALPHA)).significant
    assert Difference(*gap, Adjusted(math.nextafter(ALPHA, 0), ALPHA)).significant


@settings(max_examples=60)
@given(SEED, st.integers(2, 4))
def test_differences_and_their_intervals_agree_and_a_later_look_takes_none_back(seed, arms):
    rng = np.random.default_rng(seed)
    means = zip("abcde", 0.9 + 0.01 * np.arange(arms + 1), strict=False)
    rows = {name: rng.normal(mean, 0.01, 9).clip(0, 1).round(3) for name, mean in means}
    shown: dict[str, Difference] = {}
    for look, seeds in ((1, 3), (2, 6), (3, 9)):
        trials = {name: scores(*map(float, row[:seeds])) for name, row in rows.items()}
        pairs = {name: (trial, trials["a"]) for name, trial in trials.items() if name != "a"}
        now = together(subtracted(pairs), look)
        for gap in now.values():
            low, high = gap.interval
            assert gap.significant == (gap.p < ALPHA) == (low > 0 or high < 0)
        found = {name: gap.estimate for name, gap in shown.items() if gap.significant}
        shown = staying(now, shown)
        assert {name: shown[name].estimate for name in found} == found
        assert all(shown[name].later is now[name] and shown[name].significant for name in found)
        assert all(shown[name] is now[name] for name in {*now} - {*found})


def test_the_best_is_told_apart_among_all_pairs():
    trials = {
        name: scores(*(0.8 + 0.01 * np.sin([place, 2 * place, 5 * place, place + 3.0]).round(1)))
        for place, name in enumerate("abcd")
    }
    pairs = [one + other for one in "abcd" for other in "abcd" if one < other]
    adjusted = holm({pair: difference(trials[pair[0]], trials[pair[1]]).p() for pair in pairs}, 2)
    found = compare_best("b", trials, 2)
    assert {*found} == {"a", "c", "d"}
    for other, gap in found.items():
        assert gap.p == pytest.approx(adjusted["".join(sorted("b" + other))].p)
        assert gap.mean == pytest.approx(trials["b"].mean - trials[other].mean)


def test_seeds_that_failed_count_at_chance_and_are_counted_of_both_trials():
    scale = Scale(0.5, 0.0, 1.0, 0.001)
    one, nothing = scores(0.91, 0.92, 0.9, 0.93, 0.5, scale=scale), scores(*[0.5] * 5, scale=scale)
    assert one.mean == pytest.approx(np.mean([0.91, 0.92, 0.9, 0.93, 0.5]))
    (found,) = judge([Better("a", "none")], lambda _: {"a": one, "none": nothing})
    most = 100 * stats.beta.ppf(0.95, 2, 4)
    assert found.unseen == f"of 10 seeds 1 failed; up to {most:.0f} % of a trial's seeds may score otherwise"
