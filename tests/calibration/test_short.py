"""A short form of `make calibration`: fewer repetitions, wider limits."""

import pytest

from tests.calibration import calibrate, claims


@pytest.mark.slow
def test_verdicts_and_intervals_are_as_sure_as_they_say():
    missed = [str(row) for row in claims.rows(60) if row.away > 4 * row.error]
    assert missed == []


def test_every_table_has_what_the_command_needs():
    for name in calibrate.TABLES:
        table = calibrate.table(name)
        assert table.REPETITIONS >= 40
        assert next(table.rows(2)).bar
