"""Claims judged: by one-sided tests at one level, adjusted for all claims of a study."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from search_spaces.claim import AtChance, AtLeast, Better, Equivalent, KeepsMore, NoWorse, Rising
from service.analysis.evidence import CEILING, Region
from service.analysis.power import seeds_needed, std_interval
from service.analysis.scores import kept
from service.analysis.statistics import Scale, Scores, estimate, level_of
from service.analysis.verdicts import Departure, Verdict, judge
from tests.rooms.service.analysis.logits import mean_interval
from tests.rooms.service.analysis.test_statistics import ACCURACY, FLOATS, scores


def verdict(claim, **named) -> Verdict:
    return judge([claim], lambda image_size: named)[0]


def word(claim, **named) -> str:
    return verdict(claim, **named).word


def test_at_least_asks_where_the_whole_interval_lies():
    assert word(AtLeast("best", 0.99), best=scores(1.0, 1.0, 1.0)) == "SUPPORTED"
    assert word(AtLeast("best", 0.99), best=scores(0.995, 0.994, 0.996)) == "SUPPORTED"
    assert word(AtLeast("best", 0.99), best=scores(0.98, 0.995, 0.999)) == "INCONCLUSIVE"
    assert word(AtLeast("best", 0.99), best=scores(0.9, 0.91, 0.92)) == "REFUTED"
    assert word(AtLeast("best", 1.0), best=scores(1.0, 1.0, 1.0)) == "INCONCLUSIVE"


def test_the_seeds_that_would_decide_reach_both_ends_from_inside_and_the_nearer_one_from_outside():
    for values, distances, tests in (
        ((0.45, 0.50, 0.52, 0.54, 0.59), (0.03, 0.07), 1),
        ((0.5, 0.55, 0.57, 0.59, 0.64), (0.02,), 2),
    ):
        found = verdict(AtChance("none", 0.05), none=Scores(dict(enumerate(values)), 5, Scale(0.5)))
        spreads = std_interval(np.std(values, ddof=1), 4)
        counts = [seeds_needed(*distances, std=std, alpha=2 * level_of(2) / tests) for std in spreads]
        assert (found.word, found.needed) == ("INCONCLUSIVE", tuple(counts))
        assert counts[1] > counts[0] > 10
    edge = Region(0.45, 0.55)
    assert edge.distances(estimate([0.45, 0.45, 0.45])) == [0.0], "from an end there is nothing to reach"


def test_better_is_paired_by_seed():
    low, high = scores(0.6, 0.7, 0.8), scores(0.62, 0.719, 0.821)
    assert word(Better("high", "low"), high=high, low=low) == "SUPPORTED"
    assert word(Better("low", "high"), high=high, low=low) == "REFUTED"
    assert word(Better("high", "low", margin=0.02), high=high, low=low) == "INCONCLUSIVE"
    assert word(Better("high", "low", margin=0.05), high=high, low=low) == "REFUTED"
    assert word(Better("low", "low"), low=low) == "INCONCLUSIVE"


@settings(max_examples=40)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=3, max_size=6), st.floats(0.01, 0.3))
def test_equivalent_is_two_one_sided_tests(pairs, margin):
    gaps = [a - b for a, b in pairs]
    assume(np.std(gaps) > 1e-6)
    lower = stats.ttest_1samp(gaps, -margin, alternative="greater").pvalue
    upper = stats.ttest_1samp(gaps, margin, alternative="less").pvalue
    who, than = (scores(*side, scale=Scale()) for side in zip(*pairs, strict=True))
    found = verdict(Equivalent("who", "than", margin), who=who, than=than)
    assert (found.word == "SUPPORTED") == (max(lower, upper) < 0.045)
    if found.word == "REFUTED":
        low, high = estimate(gaps).interval(0.955)
        assert low > margin or high < -margin


def test_likeness_at_the_highest_score_is_said_to_mean_little():
    """Of 1,000 images: one wrong answer in the mean is still the ceiling, two are not."""
    top, near, below = scores(1.0, 1.0, 1.0), scores(0.999, 1.0, 0.998), scores(0.998, 0.999, 0.997)
    for claim in (Equivalent("who", "than", 0.03), NoWorse("who", "than", 0.03)):
        for who, than, said in ((top, near, True), (near, top, True), (top, below, False), (below, below, False)):
            found = verdict(claim, who=who, than=than)
            assert found.word == "SUPPORTED"
            assert (CEILING in found.why) == said
    assert CEILING not in verdict(AtLeast("who", 0.9), who=top).why
    assert CEILING not in verdict(Better("who", "than"), who=top, than=scores(0.5, 0.52, 0.51)).why


def test_chance_is_supported_near_it_and_refuted_far_away():
    assert word(AtChance("none", 0.03), none=scores(0.502, 0.498, 0.503)) == "SUPPORTED"
    assert word(AtChance("none", 0.03), none=scores(0.5, 0.5, 0.5)) == "SUPPORTED"
    assert word(AtChance("none", 0.03), none=scores(0.46, 0.54, 0.5)) == "INCONCLUSIVE"
    assert word(AtChance("none", 0.03), none=scores(0.6, 0.61, 0.62)) == "REFUTED"


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        (scores(1.0, 1.0, asked=3), "Only 2 of 3 seeds of “best” have an answer"),
        (scores(1.0), "“best” has 1 seed; a claim needs 3 seeds or more"),
        (scores(0.98, 0.97), "“best” has 2 seeds: 0.9700, 0.9800; a claim needs 3 seeds or more"),
        (None, "“best” has no test score yet"),
    ],
)
def test_a_missing_seed_or_fewer_than_three_decide_nothing(given_, said):
    named = {} if given_ is None else {"best": given_}
    for claim in (AtLeast("best", 0.1), AtChance("best"), Better("best", "best"), Equivalent("best", "best", 0.5)):
        found = verdict(claim, **named)
        assert found.word == "INCONCLUSIVE"
        assert said in found.why


def test_two_common_seeds_are_too_few_for_a_difference():
    who, than = Scores({0: 0.9, 1: 0.9, 2: 0.9}, 3, ACCURACY), Scores({1: 0.6, 2: 0.6, 3: 0.6}, 3, ACCURACY)
    found = verdict(Better("who", "than"), who=who, than=than)
    assert (found.word, found.why) == (
        "INCONCLUSIVE",
        "“who” and “than” share 2 seeds; a claim needs 3.",
    )


def test_a_diverged_seed_does_not_learn_and_shows_no_likeness():
    fallen = scores(0.5, 0.501, 0.5, diverged=(0,))
    assert word(AtLeast("who", 0.9), who=fallen) == "REFUTED"
    assert word(AtChance("who", 0.03), who=fallen) == "INCONCLUSIVE"
    assert "1 diverged" in verdict(AtLeast("who", 0.9), who=fallen).why
    none = scores(0.5, 0.5, 0.5, diverged=(0, 1, 2))
    assert word(Equivalent("who", "than", 0.1), who=none, than=scores(0.5, 0.5, 0.5)) == "INCONCLUSIVE"
    one = scores(0.5, 0.98, 0.99, 0.985, diverged=(0,))
    found = verdict(AtLeast("who", 0.9), who=one)
    assert (found.label, found.n, found.measured) == ("SUPPORTED of seeds that learn", 3, pytest.approx(0.985))
    assert "3 of 4 seeds of “who” learn, so up to 75 % of all seeds may not." in found.why


def test_a_verdict_carries_its_numbers():
    found = verdict(AtLeast("best", 0.99), best=scores(0.995, 0.994, 0.996))
    assert (found.n, found.measured, found.margin) == (3, pytest.approx(0.995), pytest.approx(0.005))
    assert (found.interval, found.confidence) == (pytest.approx(mean_interval([0.995, 0.994, 0.996], 0.045)), 0.91)
    assert str(found) == (
        "SUPPORTED of seeds that learn: “best” reaches at least 0.99. “best” has test score 0.9950 (91 % interval "
        "0.9929 to 0.9968, 3 seeds); the interval lies above 0.99 (p = 0.013). 3 of 3 seeds of “best” learn, so up to "
        "63 % of all seeds may not."
    )


def test_a_verdict_is_on_all_seeds_where_even_as_many_failures_as_may_be_change_nothing():
    sure = scores(*[0.99, 0.992, 0.991, 0.989, 0.99] * 4)
    none = scores(*[0.5, 0.503, 0.498, 0.501, 0.5] * 4)
    assert verdict(AtLeast("a", 0.8), a=sure).label == "SUPPORTED"
    assert verdict(AtLeast("a", 0.98), a=sure).label == "SUPPORTED of seeds that learn"
    assert verdict(Better("a", "b"), a=sure, b=none).label == "SUPPORTED"
    few = scores(0.99, 0.992, 0.991)
    assert verdict(Better("a", "b"), a=few, b=scores(0.5, 0.503, 0.498)).label == "SUPPORTED of seeds that learn"
    # one half of the level for the mean of the seeds that learn, one for the share of those that do not
    low, _ = mean_interval([*sure.values.values()], 0.045 / 2)
    worst = stats.beta.ppf(1 - 0.045 / 2, 1, 20)
    edge = low - worst * (np.mean([*sure.values.values()]) - 0.5)
    assert verdict(AtLeast("a", edge - 1e-6), a=sure).scope == ""
    assert verdict(AtLeast("a", edge + 1e-6), a=sure).scope == "of seeds that learn"


def test_scores_and_numbers_of_seeds_that_learn_must_not_say_opposite_things():
    often = scores(*[0.95 + 0.001 * (place % 3) for place in range(10)])
    seldom = scores(*[0.98 + 0.001 * (place % 3) for place in range(4)], *[0.5] * 6)
    found = verdict(Better("seldom", "often"), seldom=seldom, often=often)
    exact = stats.fisher_exact([[6, 4], [0, 10]], alternative="greater").pvalue
    assert found.word == "INCONCLUSIVE"
    assert f"but they do not learn equally often (Fisher's test p = {exact:.2g})" in found.why
    assert "4 of 10 seeds of “seldom” learn" in found.why
    assert word(Better("often", "seldom"), seldom=seldom, often=often) == "INCONCLUSIVE"
    for pair in (("seldom", "often"), ("often", "seldom")):
        assert word(Equivalent(*pair, 0.01), seldom=seldom, often=often) == "INCONCLUSIVE"
        assert word(Equivalent(*pair, 0.05), seldom=seldom, often=often) == "INCONCLUSIVE"
        low = scores(*[0.9 + 0.001 * (place % 3) for place in range(4)], *[0.5] * 6)
        assert word(Equivalent(*pair, 0.01), seldom=low, often=often) == "REFUTED", "numbers say the same as scores"
    some = scores(0.505, 0.51, 0.5, 0.56)
    assert word(AtChance("some", 0.1), some=some) == "INCONCLUSIVE", "a seed that learns is not at chance"


def test_each_look_is_held_to_its_own_level():
    a, b = scores(0.85, 0.87, 0.86, 0.875), scores(0.80, 0.84, 0.85, 0.835)
    first, third = (judge([Better("a", "b")], lambda _: {"a": a, "b": b}, look=look)[0] for look in (1, 3))
    assert (first.word, third.word) == ("SUPPORTED", "INCONCLUSIVE")
    assert first.p == third.p
    assert "third look, level 0.00125" in third.why


def test_what_keeps_more_of_its_score_may_have_the_lower_one():
    own = {"who": scores(0.80, 0.82, 0.81), "than": scores(0.99, 0.98, 0.99)}
    at = {"who": scores(0.78, 0.81, 0.80), "than": scores(0.90, 0.88, 0.91)}
    shares = {name: kept(at[name], own[name]) for name in own}
    gaps = [28 / 30 - 40 / 49, 31 / 32 - 38 / 48, 30 / 31 - 41 / 49]
    found = verdict(KeepsMore("who", "than", 48), **shares)
    assert (found.word, found.n) == ("SUPPORTED", 3)
    assert found.measured == pytest.approx(np.mean(gaps))
    assert found.p == pytest.approx(stats.ttest_1samp(gaps, 0, alternative="greater").pvalue, rel=0.05)
    assert found.scope == "of seeds that learn"
    assert "The share kept by “who” minus that of “than” is +0.1417" in found.why
    assert word(KeepsMore("than", "who", 48), **shares) == "REFUTED"


def test_a_gain_of_almost_nothing_has_no_share_to_keep():
    """0.003 of R² at the own side and -0.2 at another one would be -67 times what there was."""
    r2 = Scale(0.0, high=1.0)
    own = {"who": Scores({0: 0.90, 1: 0.91, 2: 0.92}, 3, r2), "than": Scores({0: 0.002, 1: 0.003, 2: 0.004}, 3, r2)}
    at = {"who": Scores({0: 0.5, 1: 0.51, 2: 0.5}, 3, r2), "than": Scores({0: -0.2, 1: -0.25, 2: -0.3}, 3, r2)}
    shares = {name: kept(at[name], own[name]) for name in own}
    assert (shares["who"].n, shares["than"].n) == (3, 0)
    assert word(KeepsMore("who", "than", 48), **shares) == "INCONCLUSIVE"


def by_trying(distance: float, std: float, level: float) -> int:
    """The fewest seeds with which a one-sided t-test at a level has 80 % of power, one number after another."""
    for seeds in range(3, 1001):
        critical = stats.t.ppf(1 - level, seeds - 1)
        if stats.nct.sf(critical, seeds - 1, distance * np.sqrt(seeds) / std) >= 0.8:
            return seeds
    raise AssertionError("more than 1,000")


def test_what_is_inconclusive_says_how_many_seeds_would_decide_it():
    for claim, end in (
        (Better("who", "than"), 0.0),
        (NoWorse("who", "than", 0.005), -0.005),
        (Equivalent("who", "than", 0.02), 0.02),
        (Better("who", "than", 0.03), 0.03),
    ):
        who, than = scores(0.60, 0.64, 0.57, 0.62, 0.62), scores(0.59, 0.60, 0.59, 0.60, 0.60)
        gaps = [0.01, 0.04, -0.02, 0.02, 0.02]
        found = verdict(claim, who=who, than=than)
        assert found.word == "INCONCLUSIVE"
        inside = found.margin > 0
        level = level_of(2) / (1 if inside or not isinstance(claim, Equivalent) else 2)
        std = np.std(gaps, ddof=1)
        spreads = [std * np.sqrt(4 / stats.chi2.ppf(share, 4)) for share in (0.9, 0.1)]
        low, high = (by_trying(abs(np.mean(gaps) - end), spread, level) for spread in spreads)
        assert (found.needed, low < high) == ((low, high), True)
        assert f" {low} to {high} seeds in all would decide it at the next look" in found.why
        few = verdict(claim, who=scores(0.60, 0.64, 0.57), than=scores(0.59, 0.60, 0.59))
        assert (few.needed, "would decide" in few.why) == (None, False), "three seeds do not tell their spread"


def test_the_seeds_needed_are_held_to_the_level_of_all_claims():
    who, than = scores(0.60, 0.64, 0.57, 0.62, 0.62), scores(0.59, 0.60, 0.59, 0.60, 0.60)
    alone, beside = (
        judge([Better("who", "than")] * claims, lambda image_size: {"who": who, "than": than})[0] for claims in (1, 4)
    )
    low = np.std([0.01, 0.04, -0.02, 0.02, 0.02], ddof=1) * np.sqrt(4 / stats.chi2.ppf(0.9, 4))
    assert beside.needed[0] == by_trying(0.014, low, level_of(2) / 4) > alone.needed[0]


def test_a_number_at_the_end_of_its_claim_needs_more_seeds_than_are_counted():
    found = verdict(AtLeast("best", 1.0), best=scores(1.0, 1.0, 1.0, 1.0, 1.0))
    assert (found.word, found.needed) == ("INCONCLUSIVE", (None, None))
    assert "More than 1,000 seeds in all would decide it" in found.why


def test_three_seeds_must_learn():
    found = verdict(AtLeast("pvt, peg", 0.9), **{"pvt, peg": scores(0.5, 0.98, 0.5)})
    assert found.why == "Only 1 of 3 seeds of “pvt, peg” learn; a claim needs 3 that do."
    four = verdict(AtLeast("a", 0.9), a=scores(0.5, 0.98, 0.97, 0.99))
    assert "3 of 4 seeds learn: 0.5000, 0.9700, 0.9800, 0.9900" in four.why


def test_where_a_claim_does_not_apply_it_is_not_judged():
    departure = Departure("at smoke", "smoke trains too little")
    found = judge([AtLeast("best", 0.99)], lambda image_size: {"best": scores(0.5, 0.51, 0.52)}, departure)[0]
    assert (found.word, found.label, found.p) == ("NOT JUDGED", "NOT JUDGED at smoke", None)
    assert str(found).startswith(
        "NOT JUDGED at smoke: “best” reaches at least 0.99. Smoke trains too little. Here "
        "“best” has test score 0.5100 (95 %"
    )


def test_scores_on_images_of_another_size_say_so():
    a, b, c = (scores(*(value + seed / 1000 for seed in range(3))) for value in (0.6, 0.7, 0.8))
    told = [
        verdict(AtLeast("a", 0.5, image_size=48), a=a).why,
        verdict(Better("b", "a", image_size=48), a=a, b=b).why,
        verdict(Rising(("a", "b", "c"), image_size=48), a=a, b=b, c=c).why,
    ]
    assert all(" at 48 px" in why for why in told), told
    assert " px" not in verdict(AtLeast("a", 0.5), a=a).why


def test_a_share_that_is_kept_is_not_called_a_score():
    departure = Departure("at smoke", "smoke trains too little")
    shares = {"who": scores(0.80, 0.81, 0.82), "than": scores(0.70, 0.71)}
    (found,) = judge([KeepsMore("who", "than", 48)], lambda image_size: shares, departure)
    assert "“who” keeps 0.8100 of what it scores above chance at 48 px (95 % interval" in found.why
    assert "“than” keeps 0.7050 of what it scores above chance at 48 px (2 seeds: 0.7000, 0.7100)" in found.why
    assert "test score" not in found.why


CLAIMS = st.sampled_from(
    [AtLeast("a", 0.6), AtChance("a", 0.1), Better("a", "b", 0.02), Equivalent("a", "b", 0.1), NoWorse("a", "b", 0.05)]
)


@settings(max_examples=150)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=3, max_size=6), st.lists(CLAIMS, min_size=1, max_size=5))
def test_the_interval_shown_is_the_one_that_decided(pairs, claims):
    a, b = (scores(*side) for side in zip(*pairs, strict=True))
    for found in judge(claims, lambda image_size: {"a": a, "b": b}):
        if found.interval is None or ", but " in found.why:  # too few seeds learn, or not equally often
            assert found.word == "INCONCLUSIVE"
            continue
        low, high = found.interval
        assert (found.p < 0.045) == (found.word != "INCONCLUSIVE")
        claim = found.claim
        if isinstance(claim, AtLeast | Better | NoWorse):
            line = {"at_least": getattr(claim, "value", 0), "better": 0.02, "no_worse": -0.05}[claim.kind]
            word = "SUPPORTED" if low > line else "REFUTED" if high < line else "INCONCLUSIVE"
        else:
            center = 0.5 if isinstance(claim, AtChance) else 0.0
            inside = center - claim.margin < low and high < center + claim.margin
            outside = low > center + claim.margin or high < center - claim.margin
            word = "SUPPORTED" if inside else "REFUTED" if outside else "INCONCLUSIVE"
        assert found.word == word
