"""Claims on orders, on a margin to one side, and on probes, against scipy's own tests."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from search_spaces.claim import NoWorse, ProbeBetween, ProbeRising, Rising
from service.analysis.statistics import Scale, Scores, contrast, difference, slope_weights
from service.analysis.verdicts import judge
from tests.rooms.service.analysis.logits import paired_p
from tests.rooms.service.analysis.test_statistics import ACCURACY, FLOATS, scores
from tests.rooms.service.analysis.test_verdicts import verdict, word

NAMES = ("a", "b", "c", "d")
ROWS = st.integers(3, 6).flatmap(
    lambda seeds: st.lists(st.lists(FLOATS, min_size=seeds, max_size=seeds), min_size=2, max_size=4)
)


def named(rows) -> dict[str, Scores]:
    return {name: scores(*row, scale=Scale()) for name, row in zip(NAMES, rows, strict=False)}


@settings(max_examples=60)
@given(ROWS, st.sampled_from([0.0, 0.02]))
def test_rising_is_a_t_test_of_each_seeds_regression(rows, margin):
    slopes = [stats.linregress(range(len(rows)), column).slope for column in zip(*rows, strict=True)]
    assume(np.std(slopes) > 1e-6)
    trials = named(rows)
    found = verdict(Rising(tuple(trials), margin), **trials)
    up, down = (stats.ttest_1samp(slopes, margin, alternative=side).pvalue for side in ("greater", "less"))
    assert found.measured == pytest.approx(np.mean(slopes), abs=1e-12)
    assert found.word == ("SUPPORTED" if up < 0.045 else "REFUTED" if down < 0.045 else "INCONCLUSIVE")
    assert found.p == pytest.approx(down if found.word == "REFUTED" else up, abs=1e-9)


def test_a_line_rises_although_the_middle_trial_is_the_worst():
    a, b, c = scores(0.9, 0.91, 0.92), scores(0.70, 0.72, 0.73), scores(0.8, 0.81, 0.83)
    assert word(Rising(("c", "b", "a")), a=a, b=b, c=c) == "SUPPORTED"
    rising = verdict(Rising(("c", "b", "a")), a=a, b=b, c=c).why
    assert rising.startswith("The slope along “c”, “b” and “a” is +0.0483 a step (91 % interval")


def test_no_worse_than_a_margin_allows():
    than = scores(0.90, 0.91, 0.92, 0.93)
    near, far = scores(0.898, 0.909, 0.917, 0.929), scores(0.80, 0.82, 0.83, 0.83)
    assert word(NoWorse("near", "than", 0.01), near=near, than=than) == "SUPPORTED"
    assert word(NoWorse("near", "than", 0.002), near=near, than=than) == "INCONCLUSIVE"
    assert word(NoWorse("far", "than", 0.01), far=far, than=than) == "REFUTED"
    assert word(NoWorse("than", "far", 0.01), far=far, than=than) == "SUPPORTED", "better is no worse"
    found = verdict(NoWorse("near", "than", 0.01), near=near, than=than)
    gaps = np.subtract(list(near.values.values()), list(than.values.values()))
    assert found.p == pytest.approx(paired_p([*near.values.values()], [*than.values.values()], -0.01), abs=1e-9)
    assert found.margin == pytest.approx(0.01 + np.mean(gaps))
    assert "the interval lies above −0.01" in found.why


def test_a_diverged_seed_is_not_shown_to_be_no_worse():
    fallen = scores(0.5, 0.5, 0.5, diverged=(0, 1, 2))
    found = verdict(NoWorse("who", "than", 0.1), who=fallen, than=scores(0.5, 0.5, 0.501))
    assert (found.word, found.why) == (
        "INCONCLUSIVE",
        "All 3 seeds of “who” diverged, which shows no score at all.",
    )
    one = scores(0.5, 0.8, 0.81, diverged=(0,))
    found = verdict(NoWorse("who", "than", 0.1), who=one, than=scores(0.8, 0.8, 0.81))
    assert (found.word, found.why) == ("INCONCLUSIVE", "Only 2 of 3 seeds of “who” learn; a claim needs 3 that do.")
    assert word(Rising(("low", "who")), who=fallen, low=scores(0.9, 0.91, 0.92)) == "REFUTED", "at chance, as Better"


def test_an_order_needs_three_seeds_that_all_share():
    trials = {"a": Scores({0: 0.9, 1: 0.8, 2: 0.7}, 3), "b": Scores({0: 0.9, 1: 0.8, 2: 0.7}, 3)}
    trials["c"] = Scores({1: 0.9, 2: 0.8, 3: 0.7}, 3)
    assert verdict(Rising(("a", "b", "c")), **trials).why == "“a”, “b” and “c” share 2 seeds; a claim needs 3."


@pytest.mark.parametrize(
    ("low", "high", "found", "place"),
    [
        (0.99, None, "SUPPORTED", "lies above 0.99"),
        (1.0, None, "INCONCLUSIVE", "contains 1.00"),
        (None, 1.0, "INCONCLUSIVE", "contains 1.00"),
        (None, 0.9, "REFUTED", "lies above 0.90"),
        (0.9, 1.01, "SUPPORTED", "inside 0.90 to 1.01"),
        (0.4, 0.6, "REFUTED", "outside 0.40 to 0.60"),
        (0.996, 1.0, "INCONCLUSIVE", "partly outside 0.9960 to 1.00"),
    ],
)
def test_a_probes_value_lies_between(low, high, found, place):
    values = Scores({0: 0.998, 1: 0.996, 2: 0.997}, 3)
    claim = ProbeBetween("sinusoidal", "direction", "accuracy", low, high)
    if low == 1.0 or high == 1.0:
        values = Scores({0: 0.998, 1: 1.003, 2: 0.999}, 3)
    judged = verdict(claim, sinusoidal=values)
    assert judged.word == found
    assert place in judged.why
    assert judged.why.startswith("“sinusoidal” has ")


def test_two_ends_are_two_tests():
    values = [0.52, 0.49, 0.50, 0.47]
    ps = [stats.ttest_1samp(values, 0.45, alternative="greater").pvalue]
    ps += [stats.ttest_1samp(values, 0.55, alternative="less").pvalue]
    found = verdict(ProbeBetween("none", "direction", "accuracy", 0.45, 0.55), none=scores(*values, scale=Scale()))
    assert (found.word, found.p) == ("SUPPORTED", pytest.approx(max(ps), abs=1e-9))
    far = verdict(ProbeBetween("none", "direction", "accuracy", 0.9, 0.95), none=scores(*values, scale=Scale()))
    low = stats.ttest_1samp(values, 0.9, alternative="less").pvalue
    assert (far.word, far.p) == ("REFUTED", pytest.approx(2 * low, abs=1e-9))


def test_a_probe_that_was_not_made_decides_nothing():
    found = verdict(ProbeBetween("none", "direction", "accuracy", 0.4, 0.6))
    assert (found.word, found.why) == ("INCONCLUSIVE", "“none” has no value of the probe yet.")


@pytest.mark.parametrize(
    ("middle", "last", "found"),
    [
        ((0.84, 0.83, 0.86), (0.91, 0.92, 0.90), "SUPPORTED"),
        ((0.78, 0.70, 0.75), (0.61, 0.62, 0.60), "REFUTED"),
        ((0.99, 0.98, 0.99), (0.70, 0.95, 0.78), "INCONCLUSIVE"),
    ],
)
def test_a_probe_rises_as_each_seeds_regression_does(middle, last, found):
    rows = [(0.80, 0.79, 0.81), middle, last]
    trials = dict(zip("abc", [Scores(dict(enumerate(row)), 3) for row in rows], strict=True))
    slopes = [stats.linregress(range(3), column).slope for column in zip(*rows, strict=True)]
    up, down = (stats.ttest_1samp(slopes, 0, alternative=side).pvalue for side in ("greater", "less"))
    judged = verdict(ProbeRising(("a", "b", "c"), "direction", "left"), **trials)
    assert (judged.word, judged.n) == (found, 3)
    assert judged.measured == pytest.approx(np.mean(slopes))
    assert judged.p == pytest.approx(down if found == "REFUTED" else up, abs=1e-9)
    assert judged.interval == pytest.approx(stats.t.interval(0.91, 2, np.mean(slopes), stats.sem(slopes)))
    assert judged.why.startswith("The slope along “a”, “b” and “c” is ")


def test_a_probe_that_a_trial_lacks_shows_no_rise():
    whole, part = Scores({0: 0.8, 1: 0.8, 2: 0.9}, 3), Scores({0: 0.9, 2: 0.9}, 3)
    claim = ProbeRising(("a", "b"), "direction", "left")
    assert verdict(claim, a=whole).why == "“b” has no value of the probe yet."
    assert verdict(claim, a=whole, b=part).why == "Only 2 of 3 seeds of “b” have a value of the probe."


def test_each_claim_is_judged_on_its_own_scores():
    probe, plain = ProbeBetween("a", "direction", "accuracy", 0.9, None), NoWorse("a", "b", 0.1)
    asked = []

    def scores_of(claim):
        asked.append(claim)
        return {"a": scores(0.95, 0.96, 0.97)} if claim == probe else named([[0.5, 0.6, 0.7]] * 2)

    first, second = judge([probe, plain], scores_of)
    assert (first.measured, second.measured) == (pytest.approx(0.96), pytest.approx(0.0))
    assert asked == [probe, plain]


def test_a_verdict_says_its_source():
    found = verdict(NoWorse("a", "b", 0.1, source="CPVT, table 6"), **named([[0.5, 0.6, 0.7]] * 2))
    assert str(found).startswith(
        "SUPPORTED of seeds that learn: “a” is no worse than “b”, within 0.1 (CPVT, table 6). “a” minus “b” is"
    )


def test_a_slope_of_rounded_scores_has_a_floor_and_ends():
    trials = [scores(0.5, 0.5, 0.5), scores(0.6, 0.6, 0.6), scores(0.7, 0.7, 0.7)]
    found = contrast(trials, slope_weights(3))
    assert found.error == pytest.approx(np.hypot(0.5, 0.5) * 0.001 / 12**0.5)
    assert (found.mean, found.low, found.high) == (pytest.approx(0.1), -0.5, 0.5)
    assert difference(*trials[:2]) == contrast(trials[:2], (1.0, -1.0))
    endless = [scores(0.1, 0.2, 0.4, scale=Scale(high=1.0))] * 3
    steep = contrast(endless, slope_weights(3))
    assert (steep.low, steep.high) == (-np.inf, np.inf)
    assert ACCURACY.step == 0.001


def test_a_trial_that_is_compared_with_itself_is_said():
    best = scores(0.9, 0.91, 0.92)
    found = verdict(NoWorse("best", "first", 0.02), best=best, first=best)
    assert found.word == "SUPPORTED"
    assert found.why.startswith("“best” and “first” are the same trial; “best” minus “first” is +0.0000 (")
    equal = verdict(NoWorse("best", "first", 0.02), best=best, first=scores(0.9, 0.91, 0.92))
    assert "same trial" not in equal.why
