"""Ray's ASHA as the rival: the right rungs, and never a trial that is stopped for having reached the end."""

import math

from hypothesis import given
from hypothesis import strategies as st

from service.execution.tune import Asha
from service.planning.stopping import rungs


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40, unique=True), st.integers(2, 4))
def test_at_a_rung_it_keeps_what_reaches_the_quantile_of_those_before(values, factor):
    """Independent of Ray's code: the linear quantile 1 - 1/factor of the values that reached the rung earlier."""
    asha = Asha(9, 3, factor)
    for number, value in enumerate(values):
        assert asha.goes_on(number, 1, value), "no rung"
        before = sorted(values[:number])
        went_on = asha.goes_on(number, 3, value)
        if before:
            place = (1 - 1 / factor) * (len(before) - 1)
            low, high = before[math.floor(place)], before[math.ceil(place)]
            cutoff = low + (high - low) * (place - math.floor(place))
            if abs(value - cutoff) > 1e-9:
                assert went_on == (value > cutoff)
        else:
            assert went_on, "the first one has no rival"


def test_the_best_trial_is_not_stopped_at_its_last_epoch():
    asha = Asha(9, rungs(9)[0], 3)
    assert all(asha.goes_on(0, epoch, 0.9) for epoch in range(1, 10))
