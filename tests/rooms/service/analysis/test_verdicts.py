"""Claims judged: the words follow from intervals and ps that are computed here once more, with scipy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from search_spaces.claim import (
    AtChance,
    AtLeast,
    Better,
    Equivalent,
    KeepsMore,
    NoWorse,
    ProbeBetween,
    ProbeRising,
    Rising,
)
from service.analysis.scores import kept
from service.analysis.statistics import Scale, Scores, share_of
from service.analysis.verdicts import DECIDED, Departure, Verdict, judge_page, staying
from tests.rooms.by_hand import judge
from tests.rooms.service.analysis.logits import FLOOR, mean_interval, on_logits, paired_p
from tests.rooms.service.analysis.test_statistics import ACCURACY, COUNTS, R2, scores

INF = float("inf")
REGIONS = {
    AtLeast("a", 0.8): (0.8, INF),
    AtChance("a", 0.2): (0.3, 0.7),
    Better("a", "b"): (0.0, INF),
    Better("a", "b", 0.02): (0.02, INF),
    NoWorse("a", "b", 0.05): (-0.05, INF),
    Equivalent("a", "b", 0.1): (-0.1, 0.1),
    Rising(("a", "b", "c"), 0.01): (0.01, INF),
    ProbeBetween("a", "direction", "left", 0.7, 0.9): (0.7, 0.9),
    ProbeBetween("a", "direction", "left", None, 0.8): (-INF, 0.8),
    ProbeRising(("a", "b"), "direction", "left"): (0.0, INF),
}
"""Claims, and where the number lies that each of them is about."""
CLAIMS = st.sampled_from([*REGIONS])
ROWS = st.lists(st.tuples(COUNTS, COUNTS, COUNTS), min_size=3, max_size=9)
FIRST = 0.05 * 3 / 4
"""The level of the first look."""
UNDECIDED, MARGIN = "INCONCLUSIVE", "the margin of 0.03 around chance, 0.50"
PROBED = (0.998, 0.996, 0.997)
"""What a probe finds in three seeds."""


def verdict(claim, look: int = 1, **named) -> Verdict:
    return judge([claim], lambda _: named, look=look)[0]


def side_by_side(interval, region) -> str:
    (low, high), (start, end) = interval, region
    inside, outside = start < low and high < end, high < start or end < low
    return "SUPPORTED" if inside else "REFUTED" if outside else "INCONCLUSIVE"


@settings(max_examples=150)
@given(CLAIMS, ROWS)
def test_a_claim_is_decided_where_its_interval_lies_inside_or_outside(claim, rows):
    a, b, c = np.transpose(rows)
    found = verdict(claim, a=scores(*a), b=scores(*b), c=scores(*c))
    if len(claim.names) == 1:
        expected = mean_interval(a, FIRST / 2)
    else:
        rising = isinstance(claim, Rising | ProbeRising)
        weights = ([-0.5, 0, 0.5] if len(claim.names) == 3 else [-1, 1, 0]) if rising else [1, -1, 0]
        halves = np.hypot(*[weight for weight in weights if weight]) * FLOOR, stats.t.ppf(1 - FIRST / 2, len(a) - 1)
        gaps = [weights @ np.array(side) for side in ((a, b, c), [*map(on_logits, (a, b, c))])]
        reach = [halves[1] * max(stats.sem(some), halves[0]) for some in gaps]
        ends = [(some.mean() - half, some.mean() + half) for some, half in zip(gaps, reach, strict=True)]
        expected = min(low for low, _ in ends), max(high for _, high in ends)
        assert found.measured == pytest.approx(gaps[0].mean(), abs=1e-9)
        expected = max(expected[0], found.estimate.low), min(expected[1], found.estimate.high)
    assert found.interval == pytest.approx(expected, abs=1e-9)
    assert found.word == side_by_side(expected, REGIONS[claim])
    assert (found.p < 0.05) == (found.word in DECIDED)
    assert found.n == len(rows)


@settings(max_examples=80)
@given(st.lists(CLAIMS, min_size=1, max_size=5), ROWS, st.integers(1, 4), st.booleans())
def test_several_claims_are_adjusted_together_and_for_looks(claims, rows, look, r2):
    named = {
        name: scores(*map(float, row), scale=replace(R2, chance=0.5) if r2 else ACCURACY)
        for name, row in zip("abc", np.transpose(rows), strict=True)
    }
    alone = [judge([claim], lambda _: named)[0] for claim in claims]
    together = judge([*claims, AtLeast("missing", 0.5)], lambda _: named)
    later = judge(claims, lambda _: named, look=look)
    for claim, one, found, other in zip(claims, alone, together, later, strict=False):
        for each in (one, found, other):
            assert each.word == side_by_side(each.interval, REGIONS[claim]), "the interval shown has decided"
            assert (each.p < 0.05) == (each.word in DECIDED)
        assert one.p <= found.p <= min(1, one.p * (len(claims) + 1)) + 1e-9 or one.word != found.word
        if len(claims) == 1:
            assert other.p == pytest.approx(min(1, one.p * share_of(1) / share_of(look)))
            assert found.p == pytest.approx(min(1, one.p * 2)), "a claim that lacks its scores counts as one, too"


def test_the_ps_are_those_of_paired_tests():
    than = (0.90, 0.91, 0.92, 0.93)
    near, far = (0.898, 0.909, 0.917, 0.929), (0.80, 0.82, 0.83, 0.83)
    for who, margin, side in ((near, -0.01, "greater"), (far, -0.01, "less"), (near, -0.001, "less")):
        found = verdict(NoWorse("who", "than", -margin), who=scores(*who), than=scores(*than))
        assert found.p == pytest.approx(min(1, 2 * paired_p(who, than, margin, side) / 0.75), rel=1e-6)
        assert found.margin == pytest.approx(np.mean(who) - np.mean(than) - margin)
    values = (0.52, 0.49, 0.50, 0.47)
    for low, high, both in ((0.45, 0.55, max), (0.9, 0.95, min)):
        sides = ("greater", "less") if both is max else ("less", "greater")
        tests = zip((low, high), sides, strict=True)
        ps = [stats.ttest_1samp(values, end, alternative=side).pvalue for end, side in tests]
        claim = ProbeBetween("none", "direction", "accuracy", low, high)
        found = verdict(claim, none=scores(*values, scale=Scale()))
        assert (found.p, found.word) == (pytest.approx(2 * both(ps) / 0.75), "SUPPORTED" if both is max else "REFUTED")


def test_the_claims_and_the_differences_of_a_page_are_tested_together():
    line = mean_interval((0.8, 0.81, 0.82), 0.005)[0]  # so the two-sided p is 0.01
    (found,), gaps = judge_page([AtLeast("a", line)], lambda _: {"a": scores(0.8, 0.81, 0.82)}, {"x": 0.03, "y": 0.5})
    assert (found.word, found.p) == ("SUPPORTED", pytest.approx(3 * 0.01 / 0.75))
    assert [gaps[name].p for name in "xy"] == pytest.approx([2 * 0.03 / 0.75, 0.5 / 0.75])
    assert (found.level, gaps["x"].level) == (pytest.approx(FIRST / 3), pytest.approx(FIRST / 2))


@settings(max_examples=80)
@given(st.lists(CLAIMS, min_size=1, max_size=4), st.lists(st.tuples(COUNTS, COUNTS, COUNTS), min_size=9, max_size=9))
def test_a_later_look_takes_no_finding_back(claims, rows):
    shown = None
    for look, seeds in ((1, 3), (2, 6), (3, 9)):
        named = {name: scores(*map(float, row[:seeds])) for name, row in zip("abc", np.transpose(rows), strict=True)}
        now = judge(claims, lambda _, named=named: named, look=look)
        before, shown = shown, staying(now, shown) if shown else now
        for earlier, verdict, fresh in zip(before or now, shown, now, strict=True):
            if earlier.word in DECIDED:
                assert replace(verdict, later=None) == replace(earlier, later=None)
                assert earlier is fresh or (verdict.later is fresh and f"With {seeds} seeds: " in verdict.reason)
            else:
                assert verdict is fresh


@pytest.mark.parametrize(
    ("claim", "values", "expected", "place"),
    [
        (AtLeast("a", 0.99), (1.0, 1.0, 1.0), "SUPPORTED", "lies above 0.99"),
        (AtLeast("a", 1.0), (1.0, 1.0, 1.0), "INCONCLUSIVE", "contains 1.00"),
        (AtLeast("a", 0.99), (0.98, 0.995, 0.999), "INCONCLUSIVE", "contains 0.99"),
        (AtLeast("a", 0.9), (0.5, 0.51, 0.495), "REFUTED", "lies below 0.90"),  # seeds at chance count with the others
        (AtLeast("a", 0.9), (0.5, 0.98, 0.985, 0.99), "INCONCLUSIVE", "contains 0.90"),
        (AtChance("a"), (0.502, 0.498, 0.503), "SUPPORTED", f"lies inside {MARGIN}"),
        (AtChance("a"), (0.46, 0.54, 0.5), "INCONCLUSIVE", f"lies partly outside {MARGIN}"),
        (AtChance("a"), (0.6, 0.61, 0.62), "REFUTED", f"lies outside {MARGIN}"),
        (Better("a", "a"), (0.6, 0.7, 0.8), "INCONCLUSIVE", "contains 0.00"),
        (ProbeBetween("a", "direction", "left", 0.99, None), PROBED, "SUPPORTED", "lies above 0.99"),
        (ProbeBetween("a", "direction", "left", 0.996, None), PROBED, "INCONCLUSIVE", "contains 0.9960"),
        (ProbeBetween("a", "direction", "left", None, 0.9), PROBED, "REFUTED", "lies above 0.90"),
        (ProbeBetween("a", "direction", "left", 0.9, 1.01), PROBED, "SUPPORTED", "lies inside 0.90 to 1.01"),
        (ProbeBetween("a", "direction", "left", 0.4, 0.6), PROBED, "REFUTED", "lies outside 0.40 to 0.60"),
        (ProbeBetween("a", "direction", "left", 0.996, 1.0), PROBED, UNDECIDED, "lies partly outside 0.9960 to 1.00"),
    ],
)
def test_words_on_three_seeds(claim, values, expected, place):
    probe = isinstance(claim, ProbeBetween)
    found = verdict(claim, a=Scores(dict(enumerate(values)), 3) if probe else scores(*values))
    assert (found.word, f"; the interval {place} (p" in found.why) == (expected, True), found.why


def test_a_verdict_carries_its_numbers_and_its_sentence():
    values = (0.995, 0.994, 0.996)
    found = verdict(AtLeast("best", 0.99, source="CPVT, table 6"), best=scores(*values))
    assert (found.n, found.measured, found.margin) == (3, pytest.approx(0.995), pytest.approx(0.005))
    low, high = mean_interval(values, FIRST / 2)
    assert (found.level, found.interval) == (pytest.approx(FIRST), pytest.approx((low, high)))
    assert str(found) == (
        "SUPPORTED: the typical seed of “best” reaches at least 0.99 (CPVT, table 6). “best” has test score 0.9950 "
        f"(95 % interval {low:.4f} to {high:.4f}, 3 seeds); the interval lies above 0.99 (p = 0.033). Seeds not seen: "
        "of 3 seeds none failed; up to 63 % may."
    )
    later = verdict(AtLeast("best", 0.99), look=2, best=scores(*values, 0.98))
    assert staying([later], [found])[0].reason == f"{found.why} With 4 seeds: 0.9912, p = 1.00."
    lost = verdict(AtLeast("best", 0.99), look=2, best=scores(*values, asked=4))
    assert staying([lost], [found])[0].reason.endswith(" Later: Only 3 of 4 seeds of “best” have an answer.")


OTHERWISE = "of a trial's seeds may score otherwise"
GOOD, LOW, FAILING = scores(0.99, 0.992, 0.991), scores(0.5, 0.503, 0.498), scores(0.5, 0.98, 0.985, 0.99)


@pytest.mark.parametrize(
    ("claim", "trials", "sentence"),
    [
        (Better("a", "b"), (GOOD, LOW), f"of 3 seeds each none failed; up to 63 % {OTHERWISE}"),
        (Better("a", "b"), (GOOD, FAILING), f"of 7 seeds 1 failed; up to 75 % {OTHERWISE}"),
        (AtLeast("a", 0.5), (GOOD,), "of 3 seeds none failed; up to 63 % may"),
        (AtLeast("a", 0.999), (GOOD,), "3 seeds seen; up to 63 % of all may do better"),
        (AtLeast("a", 0.9), (FAILING,), "of 4 seeds 1 failed; up to 75 % may"),
        (ProbeBetween("a", "direction", "left", 0.9, None), (GOOD,), ""),
    ],
)
def test_what_seeds_that_were_not_seen_might_do_stands_beside_each_verdict(claim, trials, sentence):
    assert verdict(claim, **dict(zip("ab", trials, strict=False))).unseen == sentence


def test_a_claim_on_seeds_that_train_leaves_out_those_that_failed_and_says_so():
    failing, claim = scores(0.5, 0.98, 0.985, 0.99), AtLeast("a", 0.9, of="seeds that train")
    found = verdict(claim, a=failing)
    assert (found.word, found.n, found.measured) == ("SUPPORTED", 3, pytest.approx(0.985))
    assert found.interval == pytest.approx(mean_interval([0.98, 0.985, 0.99], FIRST / 2))
    assert str(found).startswith("SUPPORTED: the typical seed that trains of “a” reaches at least 0.9.")
    assert found.unseen == "of 4 seeds 1 failed; up to 75 % may", "of all seeds, those that failed with them"
    few = verdict(claim, a=scores(0.5, 0.5, 0.98, 0.985))
    assert few.why == "2 of 4 seeds of “a” failed; the claim needs 3 seeds that train."
    pair = verdict(Better("a", "b", of="seeds that train"), a=failing, b=scores(0.9, 0.91, 0.5, 0.92))
    assert pair.why == "“a” and “b” share 2 seeds; a claim needs 3."
    shifted = Scores({1: 0.6, 2: 0.6, 3: 0.6}, 3, ACCURACY)
    order = verdict(Rising(("a", "b", "c")), a=scores(0.9, 0.9, 0.9), b=scores(0.9, 0.9, 0.9), c=shifted)
    assert (order.word, order.why) == ("INCONCLUSIVE", "“a”, “b” and “c” share 2 seeds; a claim needs 3.")


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (scores(1.0, 1.0, asked=3), "Only 2 of 3 seeds of “best” have an answer."),
        (scores(1.0), "“best” has 1 seed; a claim needs 3 seeds or more."),
        (scores(0.98, 0.97), "“best” has 2 seeds: 0.9700, 0.9800; a claim needs 3 seeds or more."),
        (None, "“best” has no test score yet."),
    ],
)
def test_a_missing_seed_or_fewer_than_three_decide_nothing(known, said):
    named = {} if known is None else {"best": known}
    for claim in (AtLeast("best", 0.1), AtChance("best"), Better("best", "best"), Equivalent("best", "best", 0.5)):
        found = verdict(claim, **named)
        assert (found.word, found.why, found.measured, found.interval) == ("INCONCLUSIVE", said, None, None)
    probe = verdict(ProbeRising(("other", "best"), "direction", "left"), other=scores(0.8, 0.8, 0.9), **named)
    assert probe.why == said.replace("test score", "value of the probe").replace("an answer", "a value of the probe")


def test_a_diverged_seed_counts_at_chance_and_shows_no_likeness():
    fallen, all_fell = scores(0.5, 0.501, 0.5, diverged=(0,)), scores(0.5, 0.5, 0.5, diverged=(0, 1, 2))
    assert verdict(AtLeast("who", 0.9), who=fallen).word == "REFUTED"
    assert verdict(Rising(("low", "who")), who=all_fell, low=scores(0.9, 0.91, 0.92)).word == "REFUTED"
    chance = verdict(AtChance("who"), who=fallen)
    assert chance.why == "1 of 3 seeds of “who” diverged, which shows no score at all."
    for claim in (Equivalent("who", "than", 0.1), NoWorse("who", "than", 0.1)):
        found = verdict(claim, who=all_fell, than=scores(0.5, 0.5, 0.501))
        why = "All 3 seeds of “who” diverged, which shows no score at all."
        assert (found.word, found.why) == ("INCONCLUSIVE", why)
    one = verdict(NoWorse("who", "than", 0.1), who=scores(0.5, 0.8, 0.81, diverged=(0,)), than=scores(0.8, 0.8, 0.81))
    assert (one.word, one.measured) == ("INCONCLUSIVE", pytest.approx(-0.1))
    assert "3 seeds, “who” 2 of 3 seeds at 0.81, 1 failed (0.50), 1 diverged" in one.why


def test_what_keeps_more_of_its_score_may_have_the_lower_one():
    own = {"who": scores(0.80, 0.82, 0.81), "than": scores(0.99, 0.98, 0.99)}
    at = {"who": scores(0.78, 0.81, 0.80), "than": scores(0.90, 0.88, 0.91)}
    shares = {name: kept(at[name], own[name]) for name in own}
    gaps = [28 / 30 - 40 / 49, 31 / 32 - 38 / 48, 30 / 31 - 41 / 49]
    found = verdict(KeepsMore("who", "than", 48), **shares)
    assert (found.word, found.n, found.measured) == ("SUPPORTED", 3, pytest.approx(np.mean(gaps)))
    assert found.p == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue / 0.75, rel=1e-6)
    assert "The share kept by “who” minus that of “than” is +0.1417" in found.why
    assert verdict(KeepsMore("than", "who", 48), **shares).word == "REFUTED"

    own, at = {"a": (0.8, 0.81, 0.82), "b": (0.502, 0.503, 0.504)}, {"a": (0.7, 0.71, 0.7), "b": (0.4, 0.35, 0.3)}
    shares = {name: kept(scores(*at[name]), scores(*own[name])) for name in own}
    nothing = verdict(KeepsMore("a", "b", 48), **shares)
    assert (shares["b"].n, nothing.word) == (0, "INCONCLUSIVE"), "a gain of almost nothing has no share to keep"
    assert nothing.why.startswith("3 seeds of “b” had nothing to keep")


def test_a_line_rises_although_the_middle_trial_is_the_worst():
    a, b, c = scores(0.9, 0.91, 0.92), scores(0.70, 0.72, 0.73), scores(0.8, 0.81, 0.83)
    found = verdict(Rising(("c", "b", "a")), a=a, b=b, c=c)
    slopes = [stats.linregress(range(3), [c.values[s], b.values[s], a.values[s]]).slope for s in range(3)]
    assert (found.word, found.measured) == ("SUPPORTED", pytest.approx(np.mean(slopes)))
    assert found.why.startswith("The slope along “c”, “b” and “a” is +0.0483 a step (95 % interval")


def test_where_a_claim_does_not_apply_it_is_not_judged():
    departure, low = Departure("at smoke", "smoke trains too little"), scores(0.5, 0.51, 0.52)
    (found,) = judge([AtLeast("best", 0.99)], lambda _: {"best": low}, departure)
    assert (found.word, found.label, found.p) == ("NOT JUDGED", "NOT JUDGED at smoke", None)
    ends = mean_interval([*low.values.values()], 0.025)
    assert found.why == (
        f"Smoke trains too little. Here “best” has test score 0.5100 (95 % interval 0.5000 to {ends[1]:.4f}, 3 seeds)."
    ), "cut at chance, as in the table"
    shares = {"who": scores(0.80, 0.81, 0.82), "than": scores(0.70, 0.71)}
    (found,) = judge([KeepsMore("who", "than", 48)], lambda _: shares, departure)
    assert "“who” keeps 0.8100 of what it scores above chance at 48 px (95 % interval" in found.why
    assert "“than” keeps 0.7050 of what it scores above chance at 48 px (2 seeds: 0.7000, 0.7100)" in found.why
    own = Departure("with own values", "encoding.gamma differs", told=True)
    (told,) = judge([AtLeast("best", 0.99)], lambda _: {"best": low}, own)
    assert told.word == "NOT JUDGED"
    assert told.why.startswith("encoding.gamma differs. Here it comes out REFUTED: ")


def test_each_claim_has_its_own_scores_and_says_on_which_images_and_whether_its_trials_are_one():
    a, b = (scores(*(value + seed / 1000 for seed in range(3))) for value in (0.6, 0.7))
    claims = [AtLeast("a", 0.5, image_size=48), AtLeast("a", 0.5), Better("b", "a", image_size=48),
              Rising(("a", "b"), image_size=48), NoWorse("a", "b", 0.2), NoWorse("a", "c", 0.2)]  # fmt: skip
    asked = []
    found = judge(claims, lambda claim: asked.append(claim) or {"a": b if claim == claims[1] else a, "b": b, "c": a})
    assert asked == claims
    assert [" at 48 px" in one.why for one in found] == [True, False, True, True, False, False]
    assert [one.measured for one in found] == pytest.approx([0.601, 0.701, 0.1, 0.1, -0.1, 0.0])
    assert ["are the same trial" in one.why for one in found] == [False] * 5 + [True]
