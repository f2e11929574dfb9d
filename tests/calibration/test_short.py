"""A short form of `make calibration`: fewer repetitions, wider limits."""

import pytest

from tests.calibration import calibrate
from tests.calibration.rows import share

OF_SEEDS = ("normal", "failing", "skewed", "looks", "winners", "images", "kinds", "pages")
"""The tables of what is found in seeds; the others have short forms of their own."""


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_SEEDS)
def test_verdicts_and_intervals_are_as_sure_as_they_say(name):
    missed = [str(row) for row in calibrate.table(name).rows(60) if row.away > 4 * row.error]
    assert missed == []


def test_every_table_has_what_the_command_needs():
    for name in calibrate.TABLES:
        table = calibrate.table(name)
        assert table.REPETITIONS >= 40
        assert next(row for row in table.rows(2) if row.bar)


def test_a_row_without_a_bar_misses_none_and_one_without_repetitions_meets_its_own():
    row = share("five of ten", [True, False] * 5)
    assert (row.found, row.holds, str(row).split()[-3:]) == (0.5, True, ["0.5000", "+-", "0.1581"])
    assert share("none of none", [], 0.05).holds
    assert not share("ten of ten", [True] * 10, 0.05).holds
