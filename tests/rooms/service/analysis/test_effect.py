"""Effect sizes and bootstrap intervals, against published tables, integrals and scipy."""

from itertools import product

import numpy as np
import pytest
from scipy import integrate, stats

from service.analysis.estimates.bootstrap import FEWEST_BOOTSTRAP, bootstrap_interval
from service.analysis.estimates.effect import LARGE, correction, effect_size, noncentrality
from service.analysis.statistics import estimate

HEDGES = {2: 0.5642, 3: 0.7236, 4: 0.7979, 5: 0.8408, 10: 0.9228, 20: 0.9619, 50: 0.9849}


def test_the_correction_is_that_of_hedges_table():
    assert {df: correction(df) for df in HEDGES} == pytest.approx(HEDGES, abs=6e-5)


def below(t: float, df: int, noncentral: float) -> float:
    """P(T <= t) by its definition: a normal over the root of a chi-squared, integrated."""
    chi = stats.chi(df, scale=df**-0.5)
    return integrate.quad(lambda s: stats.norm.cdf(t * s - noncentral) * chi.pdf(s), 0, np.inf, limit=200)[0]


def test_the_interval_turns_the_noncentral_t_around():
    for t, df in ((0.0, 4), (1.3, 2), (-2.5, 4), (8.0, 4), (3.0, 9), (40.0, 2)):
        for p in (0.025, 0.975):
            assert below(t, df, noncentrality(t, df, p)) == pytest.approx(p, abs=1e-5)


def test_far_from_nothing_both_ways_agree():
    for sign, p in product((1, -1), (0.025, 0.975)):
        for df in (2, 4, 19):
            near, far = (noncentrality(sign * t, df, p) / t for t in (LARGE * 0.999, LARGE * 1.001))
            assert near == pytest.approx(far, rel=0.01)
        assert abs(noncentrality(sign * 1e9, 2, p)) < 1e10


def test_an_effect_size_by_hand():
    # gaps 1, 2, 3, 4, 5: mean 3, standard deviation 1.5811, d_z 1.8974, with J(4) = 0.7979 it is 1.5139
    found = effect_size(estimate([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert found.value == pytest.approx(1.8974 * 0.7979, abs=2e-4)
    low, high = found.interval
    t = stats.ttest_1samp([1, 2, 3, 4, 5], 0).statistic
    assert below(t, 4, low / correction(4) * 5**0.5) == pytest.approx(0.975, abs=1e-5)
    assert below(t, 4, high / correction(4) * 5**0.5) == pytest.approx(0.025, abs=1e-5)


def test_the_interval_leaves_out_nothing_where_the_test_does():
    random = np.random.default_rng(1)
    for mean in (0.0, 0.5, 1.0, 2.0):
        found = estimate(random.normal(mean, 1, 5).tolist())
        low, high = effect_size(found).interval
        assert (low > 0 or high < 0) == (found.p() < 0.05)


def test_its_mean_is_the_true_effect():
    random = np.random.default_rng(0)
    found = [effect_size(estimate(row.tolist())) for row in random.normal(0.8, 1, (2000, 6))]
    assert np.mean([one.value for one in found]) == pytest.approx(0.8, abs=0.04)
    plain = np.mean([one.value / correction(5) for one in found])
    assert plain > 0.9, "without the correction it is too large"


def test_too_few_pairs_have_no_effect_size():
    assert effect_size(estimate([0.1, 0.2])) is None
    assert effect_size(estimate([0.1, 0.1, 0.1])) is None, "no spread"
    assert effect_size(estimate([0.1, 0.1, 0.1], floor=0.001)).value > 30, "the floor of rounded scores"


def test_the_bootstrap_is_scipys_and_the_same_each_time():
    values = [0.91, 0.93, 0.90, 0.97, 0.94, 0.92, 0.95]
    theirs = stats.bootstrap((values,), np.mean, method="BCa", n_resamples=9999, rng=0).confidence_interval
    assert bootstrap_interval(values) == bootstrap_interval(values) == pytest.approx(tuple(theirs), abs=1e-12)
    student = estimate(values).interval()
    assert student[0] < bootstrap_interval(values)[0] < bootstrap_interval(values)[1] < student[1]


def test_few_or_equal_values_have_no_bootstrap_interval():
    assert bootstrap_interval([0.1, 0.2, 0.3, 0.4, 0.5]) is None
    assert bootstrap_interval([0.5] * 8) is None


@pytest.mark.slow
def test_with_few_seeds_it_is_too_narrow():
    """Why there is none below six: of normal scores it should hold the mean 95 % of the time."""
    random, held = np.random.default_rng(0), {}
    for count in (5, FEWEST_BOOTSTRAP, 20):
        rows = random.normal(0, 1, (1000, count))
        found = stats.bootstrap((rows,), np.mean, axis=1, method="BCa", n_resamples=1999, rng=1).confidence_interval
        held[count] = np.mean((found.low <= 0) & (found.high >= 0))
    assert held[5] < 0.87
    assert held[5] < held[FEWEST_BOOTSTRAP] < held[20]
    assert held[20] > 0.9
