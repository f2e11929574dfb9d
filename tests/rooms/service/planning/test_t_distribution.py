"""Student's t as scipy has it."""

import pytest
from scipy import special

from service.planning.t_distribution import cdf, quantile


def test_it_is_scipys():
    for df in (1, 2, 3, 4, 7, 10, 29, 30):
        for t in (-50.0, -3.1, -0.1, 0.0, 0.7, 2.0, 9.0, 100.0):
            assert cdf(t, df) == pytest.approx(special.stdtr(df, t), abs=1e-14)
        for p in (0.001, 0.05, 0.4, 0.5, 0.6, 0.975, 0.9999):
            assert quantile(p, df) == pytest.approx(special.stdtrit(df, p), rel=1e-10, abs=1e-12)


def test_its_ends():
    assert (cdf(float("inf"), 3), cdf(float("-inf"), 3)) == (1.0, 0.0)
